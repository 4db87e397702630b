"""The signed bag: the one data structure of the theory, as a protocol.

A signed bag maps each tuple to an integer weight, and keeps no zero weights. A relation is a bag whose weights are
counts; a delta has negative weights for what is deleted. Bags form a commutative group under ``+``; ``join``
multiplies weights and is bilinear; ``select`` and ``project`` are linear. ``tests/laws.py`` states these laws once and
runs them on every implementation: rows in memory, and Arrow tables and DataFrames where the data is large.

NULL means what it means in SQL: it joins nothing and fails every comparison, yet as a column value in a bag it is
identical to itself (two rows that are NULL in the same column are the same row).

Algorithms work on this protocol only. They never look into a bag to decide: on Spark an emptiness test is a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self, TypeVar

from weir.algebra.expression import Expression, conjunction
from weir.algebra.quoting import backquoted
from weir.algebra.types import Row, Schema

# The column of weights where a bag, or what becomes one, is a table. No database takes a NUL in a name.
WEIGHT = "\0weight"
Pairs = Sequence[tuple[str, str]]  # (my column, the other bag's column), compared with =


class Bag(Protocol):
    """An immutable signed bag with named, typed columns."""

    @property
    def schema(self) -> Schema: ...

    def __add__(self, other: Self) -> Self:
        """Weights added tuple by tuple. Columns are matched by position; names and types are the left one's."""

    def __sub__(self, other: Self) -> Self:
        """``self + (-other)``."""

    def __neg__(self) -> Self:
        """Every weight with the other sign."""

    def scale(self, factor: int) -> Self:
        """Every weight times ``factor``; ``scale(0)`` is the empty bag of the same schema."""

    def select(self, predicate: Expression) -> Self:
        """The tuples for which the predicate is TRUE (not FALSE, not NULL)."""

    def project(self, columns: Sequence[tuple[str, Expression]]) -> Self:
        """New columns ``(name, expression)``; weights of tuples that become equal add up."""

    def keep(self, names: Sequence[str]) -> Self:
        """Projection onto some of the columns, by name."""

    def rename(self, names: Sequence[str]) -> Self:
        """The same tuples under other column names, position by position."""

    def tagged(self, name: str, value: int) -> Self:
        """The same tuples with one more column, a bigint that is ``value`` in all of them (an arrival number, say)."""

    def join(self, other: Self, on: Pairs = (), where: Expression | None = None) -> Self:
        """All pairs that agree ``on`` the column pairs and satisfy ``where``; weights multiplied.

        The result has my columns, then the other's; the two must not share a name. No ``on`` and no ``where`` is the
        cross product.
        """

    def join_as_of(
        self, other: Self, moment: str, validity: str, on: Pairs = (), where: Expression | None = None
    ) -> Self:
        """``join`` with the other bag as it was at each of my tuples' own ``moment``: its tuples count only where that
        is less than their ``validity``, a column that does not go into the result and that ``where`` does not read.
        """

    def distinct(self) -> Self:
        """Every tuple of positive weight, once. (The keyed algorithms' set semantics; not linear.)"""

    def occurring(self, names: Sequence[str]) -> Self:
        """What occurs in these columns, once each: in tuples of either sign, and perhaps in some that cancel. (Not
        linear. For keys to look up, where one too many costs little and one too few is wrong.)
        """

    def positive(self) -> Self:
        """Only the tuples of positive weight, with it: what a reader is shown. (Not linear.)"""

    def matching(self, keys: Self, on: Pairs) -> Self:
        """My tuples whose key columns occur, with positive weight, in ``keys`` (a semi-join)."""

    def without(self, keys: Self, on: Pairs, nulls_match: bool = False) -> Self:
        """My tuples whose key columns do not occur, with positive weight, in ``keys`` (an anti-join).

        ``nulls_match``: compare as column values in a bag, where NULL is itself, and not as SQL does.
        """

    def items(self) -> Iterator[tuple[Row, int]]:
        """Tuples with their weights, in no particular order. For readers, checkers and tests; never for algorithms."""


B = TypeVar("B", bound=Bag)


def total(first: B, *others: B) -> B:
    """The sum of one or more bags.

    Half with half, and not one after the other: a sum looks at all that it holds, so a thousand bags added to one that
    grows would be looked at a thousand times.
    """
    if not others:
        return first
    half = (1 + len(others)) // 2
    return total(first, *others[: half - 1]) + total(*others[half - 1 :])


def join_and_compare(mine: B, other: B, moment: str, validity: str, on: Pairs, where: Expression | None) -> B:
    """``join_as_of`` by its definition."""
    in_time = Expression(f"{backquoted(moment)} < {backquoted(validity)}")
    joined = mine.join(other, on, conjunction([in_time, *([where] if where is not None else [])]))
    return joined.keep([name for name in joined.schema.names if name != validity])
