"""Scalar values and operations with Spark's meaning, in plain Python: what the in-memory evaluator is built from."""
