"""C4: cleaned web pages, read as a stream, to pretrain language models."""
