"""PCFG SET: string edit functions to be carried out."""
