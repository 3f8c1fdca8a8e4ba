"""English passivization: active sentences to be repeated or turned into the passive voice."""
