"""Planted bugs: each one small, each one must be caught by exploring a small scenario. ``python -m tests.mutations``."""
