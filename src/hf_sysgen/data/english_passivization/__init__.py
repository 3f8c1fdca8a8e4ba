"""English passivization: copy an active sentence, or turn it into the passive voice."""
