"""What the user wrote: ``weir.toml``, the kinds of source it may name, the views' texts; and what the sources say."""
