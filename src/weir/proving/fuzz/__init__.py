"""The fuzz: generated schemas, views and changes over mixed sources, kept by Weir and compared with Spark's own SQL.

A *case* (``case``) is plain data, drawn from a seed (``drawing``). ``places`` has the databases, ``trial`` runs a case
on them through the real product and asks the oracle (``expected``), ``shrinking`` makes a failing case small, and
``run`` does all of that for many seeds.
"""
