"""Planted bugs, each small, each to be caught by exploring a small scenario: ``python -m tests.mutations``."""
