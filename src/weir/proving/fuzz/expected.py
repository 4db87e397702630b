"""The oracle: what Spark's own SQL says of a view's text, over the tables as the plain drivers read them.

All states of a view are evaluated by one query: every table holds its rows of all states, each with its state's number,
and rows of different states never meet. The number is added to the text where tables are named; nothing else changes.

A state of the sources is a *vector*: how many transactions of each of the view's sources have happened.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from weir.proving.fuzz.case import FuzzView

STATE = "fuzz_state"
StateVector = tuple[int, ...]  # one number per source, sources in order of their names
SeenRows = Counter[tuple[Any, ...]]
Tables = Mapping[tuple[str, str], pa.Table]


class Unanswerable(Exception):
    """Spark itself refuses the view, or one of its rows."""


class TableHistory:
    """What every source's tables held after each of its transactions, and where each round ended."""

    def __init__(self, start: Mapping[str, Tables]) -> None:
        self.states: dict[str, list[Tables]] = {source: [tables] for source, tables in start.items()}
        self.ends: list[dict[str, int]] = [self._now()]

    def _now(self) -> dict[str, int]:
        return {source: len(states) - 1 for source, states in self.states.items()}

    def happened(self, source: str, tables: Tables) -> None:
        self.states[source].append(tables)

    def end_round(self) -> None:
        self.ends.append(self._now())

    def vectors(self, sources: Sequence[str], round_: int) -> list[StateVector]:
        """Every vector that a round may pass through, its ends included."""
        before = self.ends[max(round_ - 1, 0)]
        return list(product(*(range(before[source], self.ends[round_][source] + 1) for source in sources)))

    def end(self, sources: Sequence[str], round_: int) -> StateVector:
        return tuple(self.ends[round_][source] for source in sources)


class ExpectedStates:
    """A view's rows at every vector of the rounds that there were."""

    def __init__(self, spark: SparkSession, view: FuzzView, history: TableHistory) -> None:
        self.sources = sorted(view.sources)
        rounds = range(len(history.ends))
        vectors = dict.fromkeys(vector for round_ in rounds for vector in history.vectors(self.sources, round_))
        self.numbers: dict[StateVector, int] = {vector: number for number, vector in enumerate(vectors)}
        found = self._evaluated(spark, view, history)
        self.columns = [(name, type_) for name, type_ in found.dtypes if name != STATE]
        self._bags: dict[int, SeenRows] = {number: Counter() for number in self.numbers.values()}
        for number, *row in rows_of_arrow(_collected(found)):
            self._bags[number][tuple(row)] += 1

    def _evaluated(self, spark: SparkSession, view: FuzzView, history: TableHistory) -> Any:
        names = {}
        for at, place in enumerate(sorted(view.tables)):
            names[place] = f"fuzz_table_{at}"
            numbered(place, self.sources, self.numbers, history, spark, names[place])
        try:
            return spark.sql(view.query(names, STATE))
        except PySparkException as problem:
            raise Unanswerable(str(problem).splitlines()[0]) from None

    def at(self, vector: StateVector) -> SeenRows:
        return self._bags[self.numbers[vector]]


def numbered(
    place: tuple[str, str], sources: Sequence[str], numbers: Mapping[StateVector, int], history: TableHistory,
    spark: SparkSession, name: str,
) -> None:  # fmt: skip
    """A temporary view with a table's rows of all states."""
    at = sources.index(place[0])
    parts = []
    for vector, number in numbers.items():
        rows = history.states[place[0]][vector[at]][place]
        parts.append(rows.append_column(STATE, pa.array([number] * rows.num_rows, pa.int32())))
    together = _without_minus_zero(pa.concat_tables(parts)).combine_chunks()  # an empty first chunk would count as all
    spark.createDataFrame(together, spark_schema(together)).createOrReplaceTempView(name)


def _without_minus_zero(table: pa.Table) -> pa.Table:
    """A source's -0.0 is 0.0 in Weir, also where the sign would show: ``CAST(x AS STRING)``."""
    for at, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(at, field, pc.add(table.column(at), pa.scalar(0.0, field.type)))
    return table


def spark_schema(table: pa.Table) -> StructType:
    """A time without zone is one: unasked, Spark would take it for an instant."""
    return cast(StructType, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def _collected(frame: Any) -> pa.Table:
    try:
        return frame.toArrow()
    except PySparkException as problem:
        raise Unanswerable(str(problem).splitlines()[0]) from None


# -- rows that can be compared -----------------------------------------------------------------------------------------


def rows_of_arrow(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Plain rows. NaN equals NaN and -0.0 is 0.0, as Spark groups them; moments are numbers, whatever their year."""
    columns = [_plain(column) for column in table.columns]
    return iter(zip(*columns, strict=True)) if columns else iter([()] * table.num_rows)


def bag_of_arrow(table: pa.Table) -> SeenRows:
    return Counter(rows_of_arrow(table))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    values = list(column.to_pylist())
    return [_same_float(value) for value in values] if pa.types.is_floating(column.type) else values


def _same_float(value: float | None) -> float | str | None:
    if value is None:
        return None
    return "NaN" if math.isnan(value) else value + 0.0


# -- sequences of states -----------------------------------------------------------------------------------------------


def misplaced(
    states: Sequence[SeenRows], start: StateVector, end: StateVector, expected: Callable[[StateVector], SeenRows],
    complete: bool,
) -> int | None:  # fmt: skip
    """The first of a round's states that no way through the vectors explains; None: all are explained, in order.

    The states begin with the one before the round. ``complete``: no state on the way may be left out.
    """
    places = {start}
    for at, state in enumerate(states):
        places = _following(places, state, end, expected, complete or at == 0)
        if not places:
            return at
    return None if end in _following(places, states[-1], end, expected, complete) else len(states) - 1


def _following(
    places: set[StateVector], state: SeenRows, end: StateVector, expected: Callable[[StateVector], SeenRows],
    complete: bool,
) -> set[StateVector]:  # fmt: skip
    """The vectors that show the state, at or after these; ``complete``: with nothing else shown on the way."""
    found: set[StateVector] = set()
    seen, waiting = set(places), list(places)
    while waiting:
        vector = waiting.pop()
        shows = expected(vector) == state
        if shows:
            found.add(vector)
        if complete and not shows and vector not in places:
            continue
        for after in _steps(vector, end):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return found


def _steps(vector: StateVector, end: StateVector) -> Iterator[StateVector]:
    for at, number in enumerate(vector):
        if number < end[at]:
            yield (*vector[:at], number + 1, *vector[at + 1 :])
