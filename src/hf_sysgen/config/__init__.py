"""Recipes and sweeps: their schema, reading, checks and migration."""
