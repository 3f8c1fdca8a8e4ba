"""Noun-adjective ordering: English to French, with adjectives before or after the noun."""
