"""Real sources, one kind per file. The heart of each is its visit: queries, changes and position from one snapshot."""
