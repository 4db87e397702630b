"""A warehouse in use: the Python API, status, audit, upkeep, checks, and what talks to a runner from outside."""
