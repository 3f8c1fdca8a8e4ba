"""How well a model generalizes: decoding, metrics and the results record."""
