"""What a batch of changes is expected to cost in questions and rows, and when recomputing is cheaper.

The shape is the ECA paper's (section 6): a change joins about J rows per hop, a share sigma passes a selection, a
recomputation reads every table. The sizes are the sources' own statistics where they have them. It is a model for
choosing and explaining, not a measurement: ``weir bench`` measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from weir.algebra.catalog import Catalog, Relation
from weir.algebra.view import View
from weir.algorithms.questions import shared_per_hop
from weir.planning.routes import Hop, Route, routes

MATCHES = 4.0  # J: rows that match a key, where nothing is known of the tables
PASSES = 0.5  # sigma: the share of rows that pass a selection
# Prices, in rows of a scan: only how they compare matters. They were fitted to ``weir bench tpch --scales 0.1,1`` on
# two cores, where such a row took about a microsecond. A row found by key costs the source an index descent and the
# warehouse its joins; a question costs a round trip and its share of a round, Spark job and commit included.
# Recomputing has a price of its own, whatever the sizes: the jobs that read and join whole tables.
ROW_READ = ROW_WRITTEN = 1.0
ROW_FOUND_BY_KEY = 5.0
ASKING = 20_000.0
RECOMPUTING = 1_600_000.0


@dataclass(frozen=True)
class Estimate:
    """Expected per batch."""

    changes: int
    questions: int
    found: float  # rows that come back for keys
    read: float  # rows of whole tables, read at the source or sent
    written: float  # rows of the view added or removed
    recomputed: bool = False  # the whole view is put in place of the old one

    @property
    def messages(self) -> int:
        """A question and its answer are two."""
        return 2 * self.questions

    @property
    def cost(self) -> float:
        """All of it, as so many rows read."""
        rows = ROW_FOUND_BY_KEY * self.found + ROW_READ * self.read + ROW_WRITTEN * self.written
        return rows + ASKING * self.questions + (RECOMPUTING if self.recomputed else 0.0)


@dataclass(frozen=True)
class TableSizes:
    """Rows per table, as far as known."""

    rows: Mapping[Relation, int]
    catalog: Catalog

    def unknown_tables(self, view: View) -> list[Relation]:
        return [relation for relation in view.relations if relation not in self.rows]

    def total(self, view: View) -> int | None:
        """All rows of the view's tables, each table once; None where one is not known."""
        return None if self.unknown_tables(view) else sum(self.rows[relation] for relation in view.relations)

    def fan_out(self, view: View, hop: Hop) -> float:
        """Rows that one row of the partial result meets in this hop, selections counted."""
        table, term = self.catalog[hop.relation], view.terms[hop.term]
        passes = PASSES if hop.lookup.selection is not None else 1.0
        if table.key and set(table.key) <= set(hop.lookup.key_columns):
            return passes
        mine = self.rows.get(hop.relation)
        if hop.whole_table:
            return passes * (mine if mine is not None else MATCHES)
        for name in hop.known:
            other = next(slot for slot in term.slots if name in slot.names)
            theirs = self.rows.get(other.relation)
            if mine and theirs and self.catalog[other.relation].key == (name.removeprefix(f"{other.alias}."),):
                return passes * mine / theirs  # a parent's children, on average
        return passes * MATCHES

    def at_source(self, hop: Hop) -> float:
        """Rows that the source must read to answer: all of them where no index finds the keys."""
        return 0.0 if hop.index is not None else float(self.rows.get(hop.relation, 0))


def maintaining(view: View, sizes: TableSizes, changes: int) -> Estimate:
    """A batch of changes spread evenly over the view's tables, swept together."""
    found, read, written = 0.0, 0.0, 0.0
    for route in routes(view, sizes.catalog):
        rows = started(view, route, changes)
        for hop in route.hops:
            rows *= sizes.fan_out(view, hop)
            found += rows
            read += sizes.at_source(hop)
        written += rows
    return Estimate(changes, shared_per_hop(view, changes), found, read, written)


def started(view: View, route: Route, changes: int) -> float:
    """The changes that a route begins with."""
    selected = view.terms[route.term].selections[route.slot] is not None
    return changes / len(view.relations) * (PASSES if selected else 1.0)


def recomputing(view: View, sizes: TableSizes) -> Estimate | None:
    """Every table read once, the view written anew; None where a size is not known."""
    total = sizes.total(view)
    if total is None:
        return None
    written = 0.0
    first_of_term = {route.term: route for route in reversed(routes(view, sizes.catalog))}
    for route in first_of_term.values():
        start = view.terms[route.term].slots[route.slot].relation
        rows = sizes.rows[start] * (PASSES if view.terms[route.term].selections[route.slot] is not None else 1.0)
        for hop in route.hops:
            rows *= sizes.fan_out(view, hop)
        written += rows
    return Estimate(0, len(view.relations), 0.0, float(total), written, recomputed=True)


def crossover(view: View, sizes: TableSizes) -> int | None:
    """The number of changes per batch from which on recomputing is cheaper.

    None where a size is not known, and where a change costs nothing (its partners are empty tables): then never.
    """
    whole = recomputing(view, sizes)
    if whole is None:
        return None
    fixed, one = (maintaining(view, sizes, changes).cost for changes in (0, 1))
    return max(1, ceil((whole.cost - fixed) / (one - fixed))) if one > fixed else None
