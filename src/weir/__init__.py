"""Weir: materialized views over several autonomous databases, at a consistency level that is declared, held and
checked.
"""

__version__ = "0.1.0"
