"""``weir bench soak``: the record of a long run under traffic, and memory over time."""
