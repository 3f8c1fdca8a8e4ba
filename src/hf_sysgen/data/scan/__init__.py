"""SCAN: commands to sequences of actions."""
