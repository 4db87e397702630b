"""What a round's commits of one view add to its table.

A commit that adds signed rows is appended as it is. The actions of the keyed algorithms look at the view (which rows
carry these keys, which are missing), so the part of the view they touch is fetched by Spark, and they are applied to
that part alone: nothing else can change, and nothing else decides. A replacement becomes a load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.bag import WEIGHT, Pairs
from weir.algebra.errors import WeirError
from weir.algebra.quoting import backquoted
from weir.messages import (
    Action,
    Add,
    AddMissing,
    AddSwept,
    Commit,
    DeleteKeys,
    DropNegative,
    Position,
    Replace,
    apply_actions,
)  # fmt: skip
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag
from weir.sweeping.order import SweptDelta
from weir.warehouse.bags import bag_of, batch_of
from weir.warehouse.columns import ARRIVAL as STORED_ARRIVAL
from weir.warehouse.record import ArrivalStep
from weir.warehouse.staging import Staged
from weir.warehouse.store import Batch, ViewStore


@dataclass(frozen=True)
class RoundCommits:
    """A view's part of a round: what its algorithm committed, each commit with its state's arrival number, and what
    delegated sweeps have found; ``first`` to ``last`` are the arrival numbers that this covers.
    """

    commits: Sequence[tuple[int, Commit]]
    deltas: Sequence[SweptDelta]
    first: int
    last: int
    every_state: bool  # whether each of the states can be read later, or only the last one

    def number(self, arrival: int) -> int:
        """The arrival number that a row is stored with."""
        return arrival if self.every_state else self.last

    def steps(self) -> Iterator[ArrivalStep]:
        """Which source moved where at which arrival, for finding states inside the batch by position."""
        before: Mapping[str, Position] = {}
        for arrival, commit in self.commits if self.every_state else ():
            for source, position in commit.positions.items():
                if before.get(source) != position:
                    yield arrival, source, position
            before = commit.positions


def delta_of(store: ViewStore, round_: RoundCommits, spark: SparkSession) -> tuple[str, Batch | None]:
    """What to give to the store: ``append`` with signed rows (None: nothing), or ``load`` with the whole view."""
    numbered = [(round_.number(arrival), action) for arrival, commit in round_.commits for action in commit.actions]
    if (last := _last_replacement(numbered)) is not None:
        return "load", _replaced(numbered, last, spark)
    if all(isinstance(action, Add | AddSwept) for _, action in numbered):
        tables = [_table(action.delta, arrival) for arrival, action in numbered if isinstance(action, Add)]
        return "append", _batch(store, tables, round_)
    return "append", _batch(store, list(_looked_at(store, round_, spark)), round_)


def _batch(store: ViewStore, tables: list[pa.Table], round_: RoundCommits) -> Batch | None:
    """Rows at hand become one part; what tasks have written already goes with it."""
    deltas = round_.deltas
    rows = [table for table in [*tables, *(table for delta in deltas for table in delta.rows)] if table.num_rows]
    staged = [part for delta in deltas for part in delta.staged]
    if rows:
        staged.append(store.stager(last=round_.last).write(pa.concat_tables(rows, promote_options="default")))
    return reduce(Staged.__add__, staged) if staged else None


def _table(bag: Any, arrival: int) -> pa.Table:
    table = bag.to_arrow().table if isinstance(bag, FrameBag) else bag.table
    arrivals = pa.repeat(pa.scalar(arrival, pa.int64()), table.num_rows)
    return batch_of(table, bag.schema.names).append_column(STORED_ARRIVAL, arrivals)


# -- replacements ------------------------------------------------------------------------------------------------------


def _last_replacement(numbered: Sequence[tuple[int, Action]]) -> int | None:
    places = [place for place, (_, action) in enumerate(numbered) if isinstance(action, Replace)]
    return places[-1] if places else None


def _replaced(numbered: Sequence[tuple[int, Action]], last: int, spark: SparkSession) -> Batch:
    """The view after its last replacement, and what was added since."""
    replacement = numbered[last][1]
    assert isinstance(replacement, Replace)
    rows = frame_bag(replacement.rows, spark)
    for _, action in numbered[last + 1 :]:
        assert isinstance(action, Add), "what follows a replacement adds to it"
        rows = rows + frame_bag(action.delta, spark)
    return batch_of(rows.rows, rows.schema.names)


def frame_bag(bag: Any, spark: SparkSession) -> FrameBag:
    return bag if isinstance(bag, FrameBag) else FrameBag.from_arrow(spark, bag)


# -- actions that look at the view -------------------------------------------------------------------------------------


def _looked_at(store: ViewStore, round_: RoundCommits, spark: SparkSession) -> Iterator[pa.Table]:
    """Each commit's signed change, found on the part of the view that the round's actions touch."""
    actions = [action for _, commit in round_.commits for action in commit.actions]
    state = _touched(store, actions, spark)
    for arrival, commit in round_.commits:
        after = apply_actions(state, commit.actions)
        assert isinstance(after, ArrowBag)
        yield _table(after - state, round_.number(arrival))
        state = after


def _touched(store: ViewStore, actions: Sequence[Action], spark: SparkSession) -> ArrowBag:
    """The view's rows that carry a key that is deleted, or equal a row that is added."""
    view = store.read(spark)
    names = store.schema.names
    parts = [_carrying(view, on, keys, spark) for on, keys in _deleted(actions).items()]
    added = [_rows(action) for action in actions if not isinstance(action, DeleteKeys)]
    if added:
        rows = FrameBag.from_arrow(spark, reduce(ArrowBag.__add__, added).distinct()).frame.drop(WEIGHT)
        other = rows.toDF(*(f"added {at}" for at in range(len(names))))
        same = [view[backquoted(name)].eqNullSafe(other[f"`added {at}`"]) for at, name in enumerate(names)]
        parts.append(view.join(other, reduce(lambda a, b: a & b, same), "left_semi"))
    counted = [part.groupBy(*map(backquoted, names)).count() for part in parts]
    return bag_of(reduce(DataFrame.unionAll, counted).distinct().toArrow(), store.schema)


def _rows(action: Action) -> ArrowBag:
    match action:
        case Add(bag) | AddMissing(bag) if isinstance(bag, ArrowBag):
            return bag
        case DropNegative():
            raise WeirError(
                "negative_counters = 'false' only shows in the simulator that PVM needs them (weir simulate pvm); "
                "leave the option out"
            )
    raise AssertionError(f"{action} cannot be looked at")


def _deleted(actions: Sequence[Action]) -> dict[Pairs, ArrowBag]:
    """Keys to delete, all together per set of columns."""
    found: dict[Pairs, ArrowBag] = {}
    for action in actions:
        if isinstance(action, DeleteKeys):
            keys, on = action.keys, tuple(action.on)
            assert isinstance(keys, ArrowBag)
            found[on] = found[on] + keys if on in found else keys
    return found


def _carrying(view: DataFrame, on: Pairs, keys: ArrowBag, spark: SparkSession) -> DataFrame:
    wanted = FrameBag.from_arrow(spark, keys.positive().keep([right for _, right in on]).distinct()).frame.drop(WEIGHT)
    other = wanted.toDF(*(f"key {at}" for at in range(len(on))))
    same = [view[backquoted(mine)] == other[f"`key {at}`"] for at, (mine, _) in enumerate(on)]
    return view.join(F.broadcast(other), reduce(lambda a, b: a & b, same), "left_semi")
