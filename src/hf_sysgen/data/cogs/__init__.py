"""COGS: sentences to logical forms (`builder`), forms without variables (`variable_free`) or graphs (`graph`)."""
