"""How well a model generalizes: decoding, metrics and significance tests."""
