"""Mathematics Dataset: school questions and answers, read and written character by character."""
