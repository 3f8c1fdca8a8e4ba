"""Training: tasks, batches, schedules, the trainer and the launching of runs."""
