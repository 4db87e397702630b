"""The signed bag in memory: a dictionary from row to weight. The simulator and the checker run on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any

from weir.algebra.bag import Pairs
from weir.algebra.errors import TypeMismatch
from weir.algebra.expression import Expression
from weir.algebra.types import BIGINT, Column, Row, Schema, normalise_row, sort_key

Weights = dict[Row, int]


class MemoryBag:
    """A signed bag of Python tuples.

    >>> r = MemoryBag.of(Schema.parse("W int, X int"), [(1, 2), (1, 2), (4, 2)])
    >>> r
    MemoryBag(2*(1, 2), (4, 2))
    >>> r - r.scale(2)
    MemoryBag(-2*(1, 2), -(4, 2))
    """

    __slots__ = ("_hash", "_weights", "schema")

    def __init__(self, schema: Schema, weights: Weights) -> None:
        """Takes ownership of ``weights``, whose rows must be normalised and whose weights must not be zero."""
        self.schema = schema
        self._weights = weights
        self._hash: int | None = None

    @classmethod
    def of(cls, schema: Schema, rows: Iterable[Sequence[Any]] = ()) -> MemoryBag:
        """From rows, each of weight one, checked against the schema."""
        return cls.weighted(schema, ((row, 1) for row in rows))

    @classmethod
    def weighted(cls, schema: Schema, rows: Iterable[tuple[Sequence[Any], int]]) -> MemoryBag:
        """From rows with weights, checked against the schema."""
        return cls(schema, _gather((normalise_row(row, schema), weight) for row, weight in rows))

    # -- linear structure -------------------------------------------------------------------------------------------

    def __add__(self, other: MemoryBag) -> MemoryBag:
        return self._merge(other, 1)

    def __sub__(self, other: MemoryBag) -> MemoryBag:
        return self._merge(other, -1)

    def __neg__(self) -> MemoryBag:
        return self.scale(-1)

    def scale(self, factor: int) -> MemoryBag:
        scaled = {row: weight * factor for row, weight in self._weights.items()} if factor else {}
        return MemoryBag(self.schema, scaled)

    def _merge(self, other: MemoryBag, sign: int) -> MemoryBag:
        if len(self.schema) != len(other.schema):
            raise TypeMismatch(f"cannot add a bag of ({other.schema}) to one of ({self.schema})")
        if not other._weights:
            return self
        merged = dict(self._weights)
        for row, weight in other._weights.items():
            new = merged.get(row, 0) + sign * weight
            if new:
                merged[row] = new
            else:
                del merged[row]
        return MemoryBag(self.schema, merged)

    # -- select, project, join --------------------------------------------------------------------------------------

    def select(self, predicate: Expression) -> MemoryBag:
        passes = predicate.predicate(self.schema)
        return MemoryBag(self.schema, {row: w for row, w in self._weights.items() if passes(row) is True})

    def project(self, columns: Sequence[tuple[str, Expression]]) -> MemoryBag:
        compiled = [(name, *expression.compile(self.schema)) for name, expression in columns]
        schema = Schema(Column(name, type_) for name, type_, _ in compiled)
        functions = [function for _, _, function in compiled]
        rows = ((tuple(f(row) for f in functions), weight) for row, weight in self._weights.items())
        return MemoryBag(schema, _gather(rows))

    def keep(self, names: Sequence[str]) -> MemoryBag:
        if tuple(names) == self.schema.names:
            return self
        pick = _picker(self.schema.positions(names))
        return MemoryBag(self.schema.only(names), _gather((pick(row), w) for row, w in self._weights.items()))

    def rename(self, names: Sequence[str]) -> MemoryBag:
        columns = zip(names, self.schema.types, strict=True)
        return MemoryBag(Schema(Column(name, type_) for name, type_ in columns), self._weights)

    def tagged(self, name: str, value: int) -> MemoryBag:
        schema = Schema((*self.schema, Column(name, BIGINT)))
        return MemoryBag(schema, {(*row, value): weight for row, weight in self._weights.items()})

    def join(self, other: MemoryBag, on: Pairs = (), where: Expression | None = None) -> MemoryBag:
        schema = Schema((*self.schema, *other.schema))
        if len(set(schema.names)) < len(schema):
            sides = f"({self.schema}) and ({other.schema})"
            raise TypeMismatch(f"both sides of a join have a column of the same name: {sides}")
        passes = where.predicate(schema) if where is not None else None
        mine = _picker(self.schema.positions(left for left, _ in on))
        partners = other._index(other.schema.positions(right for _, right in on))
        rows = (
            (row + partner, weight * partner_weight)
            for row, weight in self._weights.items()
            for partner, partner_weight in partners.get(mine(row), ())
            if passes is None or passes(row + partner) is True
        )
        return MemoryBag(schema, dict(rows))  # pairs of distinct rows are distinct, and no product of weights is zero

    def join_as_of(
        self, other: MemoryBag, moment: str, validity: str, on: Pairs = (), where: Expression | None = None
    ) -> MemoryBag:
        """Rows that differ in nothing but their validity are met once, with what counts of them: a key that changes a
        thousand times meets a thousand moments in a thousand pairs, not in a million.
        """
        rest, times = other._by_validity(validity)
        joined = self.join(MemoryBag(rest, dict.fromkeys(times, 1)), on)
        mine, at = len(self.schema), self.schema.positions([moment])[0]
        rows = ((row, weight * times[row[mine:]](row[at])) for row, weight in joined.items())
        found = MemoryBag(joined.schema, {row: weight for row, weight in rows if weight})
        return found if where is None else found.select(where)

    def _by_validity(self, validity: str) -> tuple[Schema, dict[Row, Callable[[int], int]]]:
        """Rows without their validity, and for each what it counts at a moment."""
        at = self.schema.positions([validity])[0]
        times: dict[Row, list[tuple[int, int]]] = {}
        for row, weight in self._weights.items():
            times.setdefault(row[:at] + row[at + 1 :], []).append((row[at], weight))
        rest = Schema(column for column in self.schema if column.name != validity)
        return rest, {row: _counting(found) for row, found in times.items()}

    def _index(self, positions: tuple[int, ...]) -> Mapping[Row, list[tuple[Row, int]]]:
        """Rows by key; rows with a NULL in the key are left out, since NULL joins nothing."""
        pick = _picker(positions)
        index: dict[Row, list[tuple[Row, int]]] = {}
        for row, weight in self._weights.items():
            key = pick(row)
            if None not in key:
                index.setdefault(key, []).append((row, weight))
        return index

    # -- keys and sets (not linear) ---------------------------------------------------------------------------------

    def distinct(self) -> MemoryBag:
        return MemoryBag(self.schema, {row: 1 for row, weight in self._weights.items() if weight > 0})

    def occurring(self, names: Sequence[str]) -> MemoryBag:
        at = self.schema.positions(names)
        return MemoryBag(self.schema.only(names), {tuple(row[place] for place in at): 1 for row in self._weights})

    def positive(self) -> MemoryBag:
        return MemoryBag(self.schema, {row: weight for row, weight in self._weights.items() if weight > 0})

    def matching(self, keys: MemoryBag, on: Pairs) -> MemoryBag:
        return self._filter_by(keys, on, wanted=True, nulls_match=False)

    def without(self, keys: MemoryBag, on: Pairs, nulls_match: bool = False) -> MemoryBag:
        return self._filter_by(keys, on, wanted=False, nulls_match=nulls_match)

    def _filter_by(self, keys: MemoryBag, on: Pairs, wanted: bool, nulls_match: bool) -> MemoryBag:
        theirs = _picker(keys.schema.positions(right for _, right in on))
        present = {theirs(row) for row, weight in keys._weights.items() if weight > 0}
        present = present if nulls_match else {key for key in present if None not in key}
        mine = _picker(self.schema.positions(left for left, _ in on))
        kept = {row: weight for row, weight in self._weights.items() if (mine(row) in present) is wanted}
        return MemoryBag(self.schema, kept)

    # -- looking in -------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[tuple[Row, int]]:
        return iter(self._weights.items())

    def rows(self) -> list[Row]:
        """Every row as often as its weight says, sorted; for reading. Negative weights cannot be shown this way."""
        return [row for row, weight in sorted(self.items(), key=lambda item: sort_key(item[0])) for _ in range(weight)]

    def __len__(self) -> int:
        """The number of different tuples."""
        return len(self._weights)

    @property
    def cardinality(self) -> int:
        """The number of tuples, each counted as often as its weight says, whatever the sign."""
        return sum(abs(weight) for weight in self._weights.values())

    def __eq__(self, other: object) -> bool:
        """The same tuples with the same weights. Column names do not matter."""
        return isinstance(other, MemoryBag) and self._weights == other._weights

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._weights.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"MemoryBag({self})"

    def __str__(self) -> str:
        return ", ".join(f"{_sign(w)}{_row(r)}" for r, w in sorted(self.items(), key=lambda item: sort_key(item[0])))

    def __reduce__(self) -> tuple[Any, ...]:
        # NaN is compared by identity here, so a pickled copy must be normalised again.
        return (MemoryBag.weighted, (self.schema, list(self.items())))


def _gather(rows: Iterable[tuple[Row, int]]) -> Weights:
    """The one constructor of weights: equal rows add up, zero weights are dropped."""
    weights: Weights = {}
    for row, weight in rows:
        weights[row] = weights.get(row, 0) + weight
    return {row: weight for row, weight in weights.items() if weight}


def _counting(times: list[tuple[int, int]]) -> Callable[[int], int]:
    """A function that adds up the weights whose validity, which stands before it, is beyond a moment."""
    times.sort()
    ends = [end for end, _ in times]
    sums = [*accumulate(weight for _, weight in reversed(times)), 0]  # of the last one, of the last two, ..., of none
    return lambda moment: sums[len(ends) - bisect_right(ends, moment) - 1]


def _picker(positions: tuple[int, ...]) -> Callable[[Row], Row]:
    """A function that takes the values at ``positions`` out of a row, as a tuple."""
    if len(positions) == 1:
        position = positions[0]
        return lambda row: (row[position],)
    if not positions:
        return lambda row: ()
    return itemgetter(*positions)


def _sign(weight: int) -> str:
    return {1: "", -1: "-"}.get(weight, f"{weight}*")


def _row(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")"
