"""Consistency: histories, levels as data, and a checker that shows a witness for what it says.

It sees messages and bags only. ``levels`` names what can be demanded; ``history`` is what happened at the sources;
``vectors`` and ``lattice`` are the source states that a view state may stand for; ``checker`` decides;
``witness`` says why; ``carried`` does it for long histories.
"""
