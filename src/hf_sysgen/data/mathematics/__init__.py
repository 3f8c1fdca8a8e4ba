"""Mathematics Dataset: school questions and answers, read and written by character."""
