"""A small shop in three SQLite files, with views and traffic: what ``weir init`` writes and the demo runs on."""
