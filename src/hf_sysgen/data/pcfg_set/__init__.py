"""PCFG SET: string edit functions to apply."""
