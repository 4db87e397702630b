"""Weir: materialized views over several autonomous databases, at a consistency level that is declared, held and
checked.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from weir.operation.warehouse import AsOf, Audit, Warehouse

__all__ = ["AsOf", "Audit", "Warehouse", "__version__"]


def __getattr__(name: str) -> Any:
    """The Python API. Imported when asked for: the laboratory and the command line's help need no Spark."""
    if name in __all__:
        from weir.operation import warehouse

        return getattr(warehouse, name)
    raise AttributeError(f"module 'weir' has no attribute '{name}'")
