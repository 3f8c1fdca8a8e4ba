"""How a model learns: recipes, batches, schedules and the trainer."""
