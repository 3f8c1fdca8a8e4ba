"""SLOG (Li et al. 2023): 17 structural cases, after COGS."""
