"""Reverse: sequences of letters, to be reversed."""
