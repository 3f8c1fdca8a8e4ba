"""CLUTRR: stories about families, from which an unstated kinship is inferred."""
