"""One slice of a batch taken through all hops by itself: what a Spark task does.

The procedure is the algorithms' own ``sweep``; here it is only driven. Memory stays bounded however far a slice fans
out, because the sweep is linear in every answer and in its compensation: when an answer is large, or would meet too
much in the join, the procedure is continued once per piece of it, one piece to its end before the next (what arrived
later goes with the first piece only, and is cut as well where that is still too much). That needs a sweep with one
partial result, so a slice that fans out is first taken apart by the slot it starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.view import View, needed_schemas
from weir.algorithms.procedure import Procedure, Reply
from weir.algorithms.sweeping import number, sweep
from weir.spark.arrow_bag import ArrowBag
from weir.spark.arrow_keys import TooManyPairs, at_most_pairs
from weir.sweeping.packed import PackedUpdates

MOST_ROWS = 200_000  # of one answer; more of them go through the hops piece by piece
MOST_PAIRS = 500_000  # that one join makes
KEYS_AT_ONCE = 5_000
Look = Callable[[Lookup], pa.Table]


class FansOut(Exception):
    """An answer is too large for a slice that starts from several slots."""


@dataclass(frozen=True)
class OneSlot:
    """Packed updates, as seen from one slot alone."""

    packed: PackedUpdates
    offset: int

    def changes(self, relation: Relation, columns: Sequence[str], tag: str, factor: int, offset: int) -> Bag | None:
        """Those of the one slot, which its ``offset`` tells; the others have none."""
        return self.packed.changes(relation, columns, tag, factor, offset) if offset == self.offset else None


def swept(
    view: View,
    batch: PackedUpdates,
    arrived: PackedUpdates,
    look: Look,
    most_rows: int = MOST_ROWS,
    most_pairs: int = MOST_PAIRS,
) -> Iterator[ArrowBag]:
    """The view's change by a slice of a batch, in bags of its columns and ARRIVAL that add up to it.

    ``arrived``: every update that the answers have seen and some row of the batch must not see.
    """
    task = _Task(view, arrived, look, most_rows, most_pairs)
    try:
        found = task.together(batch)
    except (FansOut, TooManyPairs):
        for offset in _starts(view, batch):
            yield from task.piece_by_piece(Procedure.start(sweep, view, OneSlot(batch, offset)))
    else:
        yield from found


def _starts(view: View, batch: PackedUpdates) -> Iterator[int]:
    for index, term in enumerate(view.terms):
        for at, slot in enumerate(term.slots):
            if slot.relation in batch.tables:
                yield number(view, 0, index, at)


class _Task:
    """Drives sweeps of one view over one set of answers."""

    def __init__(self, view: View, arrived: PackedUpdates, look: Look, most_rows: int, most_pairs: int) -> None:
        self.view, self.arrived, self.look = view, arrived, look
        self.most_rows, self.most_pairs = most_rows, most_pairs
        self.schemas = needed_schemas([view])

    def together(self, batch: PackedUpdates) -> list[ArrowBag]:
        """All starting slots in one sweep, which shares its lookups between them."""
        procedure = Procedure.start(sweep, self.view, batch)
        while not procedure.finished:
            lookup = _asked(procedure)
            rows = self.look(lookup)
            if rows.num_rows > self.most_rows:
                raise FansOut
            procedure = self._continued(procedure, lookup, rows, self.arrived)
        return [procedure.result] if procedure.result is not None else []

    def piece_by_piece(self, procedure: Procedure) -> Iterator[ArrowBag]:
        if procedure.finished:
            if procedure.result is not None:
                yield procedure.result
            return
        lookup = _asked(procedure)
        arrived = self.arrived.of_relation(lookup.relation)
        for rows in _pieces(lookup, self.look, self.most_rows):
            yield from self._in_parts(procedure, lookup, rows, arrived)
            arrived = PackedUpdates({})

    def _in_parts(
        self, procedure: Procedure, lookup: Lookup, rows: pa.Table, arrived: PackedUpdates
    ) -> Iterator[ArrowBag]:
        """Continues with a piece of an answer, halved until what it meets is not too much."""
        try:
            following = self._continued(procedure, lookup, rows, arrived)
        except TooManyPairs:
            for half in _halves(rows, arrived):
                yield from self._in_parts(procedure, lookup, *half)
        else:
            yield from self.piece_by_piece(following)

    def _continued(self, procedure: Procedure, lookup: Lookup, rows: pa.Table, arrived: PackedUpdates) -> Procedure:
        bag = ArrowBag.from_table(self.schemas[lookup.relation].only(lookup.columns), rows)
        reply = Reply((bag,), arrived)  # type: ignore[arg-type]  # a sweep takes either form of updates
        indivisible = rows.num_rows + arrived.rows <= 1
        with at_most_pairs(None if indivisible else self.most_pairs):
            return procedure.send(reply)


def _halves(rows: pa.Table, arrived: PackedUpdates) -> Iterator[tuple[pa.Table, PackedUpdates]]:
    """Two parts of an answer and of what arrived later: of the larger of the two, the other goes with the first."""
    none = PackedUpdates({})
    if rows.num_rows >= arrived.rows:
        half = rows.num_rows // 2
        yield rows.slice(0, half), arrived
        yield rows.slice(half), none
    else:
        early, late = arrived.halves()
        yield rows, early
        yield rows.slice(0, 0), late


def _pieces(lookup: Lookup, look: Look, most_rows: int) -> Iterator[pa.Table]:
    """The answer in pieces; at least one, be it empty."""
    for part in _by_keys(lookup):
        rows = look(part)
        for start in range(0, max(rows.num_rows, 1), most_rows):
            yield rows.slice(start, most_rows)


def _by_keys(lookup: Lookup) -> Iterator[Lookup]:
    keys: Any = lookup.keys
    if keys is None or len(keys) <= KEYS_AT_ONCE:
        yield lookup
        return
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = ArrowBag(keys.schema, keys.table.slice(start, KEYS_AT_ONCE), consolidated=True)
        yield replace(lookup, keys=part)


def _asked(procedure: Procedure) -> Lookup:
    (question,) = procedure.questions
    (lookup,) = question.parts
    assert isinstance(lookup, Lookup)
    return lookup
