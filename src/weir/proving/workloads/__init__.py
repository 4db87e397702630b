"""What the exactness stress runs on, one kind per file."""
