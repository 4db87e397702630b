"""The warehouse: one Delta table per view, one Delta version per state, read at any state that is kept."""
