"""The loop: visit every source, hand over what changed, run the algorithms to rest, write; ``engine`` is one step."""
