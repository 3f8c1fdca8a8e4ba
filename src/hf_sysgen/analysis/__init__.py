"""Analyses and plots of the papers, from records, checkpoints and examples."""
