"""From texts to token ids, subwords and roles."""
