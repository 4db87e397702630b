"""How many questions a batch of changes is expected to take: what the cost model wants to know of an algorithm."""

from __future__ import annotations

from collections.abc import Callable

from weir.algebra.view import View
from weir.algorithms.sweeping import hops

Questions = Callable[[View, int], int]  # the view and the number of changes that come together -> questions


def never(view: View, changes: int) -> int:
    """What it needs is at hand."""
    return 0


def once(view: View, changes: int) -> int:
    """One question for everything."""
    return 1


def per_change(view: View, changes: int) -> int:
    """One question for each change."""
    return changes


def per_hop(view: View, changes: int) -> int:
    """One question for each change and table that it meets; one source answers for all its tables at once."""
    return changes if len(view.sources) == 1 else changes * sum(len(term.slots) - 1 for term in view.terms)


def per_table_and_hop(view: View, changes: int) -> int:
    """One question for each table that has changed and table that it meets, whatever the number of changes."""
    return per_hop(view, min(changes, sum(len(term.slots) for term in view.terms)))


def shared_per_hop(view: View, changes: int) -> int:
    """One question for each hop, whatever the number of changes: at most two per table."""
    return sum(len(hops(term)) for term in view.terms)
