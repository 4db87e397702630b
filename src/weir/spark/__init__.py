"""Signed bags where the data is large: Arrow tables inside a task, DataFrames across the cluster; and the session."""
