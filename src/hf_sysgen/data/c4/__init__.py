"""C4: cleaned web pages, streamed, to pretrain language models."""
