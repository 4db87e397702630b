"""Which algorithm keeps a view, why, and at what cost. Nothing here runs anything."""
