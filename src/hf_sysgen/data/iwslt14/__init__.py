"""IWSLT14: translation of TED talks from German to English."""
