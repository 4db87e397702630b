"""Batched sweeps on Spark: one job per round, tasks that take slices of a batch through all hops, and their lookups."""
