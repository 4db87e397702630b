"""The algorithms, each one file with its theory on top. They do no I/O: they receive messages and return effects."""
