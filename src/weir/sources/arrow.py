"""Our column types as Arrow's, for the sources: the mapping itself belongs to the algebra, because Spark's bags need it
too.
"""

from weir.algebra.arrow_types import arrow_schema, arrow_type

__all__ = ["arrow_schema", "arrow_type"]
