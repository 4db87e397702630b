"""The view store: a view as a Delta table, changed exactly once by every batch, read at any kept state.

The table has the view's columns and nothing else, every row as often as it counts; every version is a state of the
view. State is the table's own log and nothing else. One writer appends; rewritings of files may run beside it, in other
threads or processes, and any number of readers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weir.algebra.types import Schema
from weir.messages import Position
from weir.points import AFTER_FILES, BEFORE_COMMIT, BETWEEN_COMMITS, reach
from weir.warehouse import publishing, retention, rewriting
from weir.warehouse.addressing import ShownState, find_state
from weir.warehouse.care import COMMON, Limits
from weir.warehouse.columns import check_columns
from weir.warehouse.committing import Committer
from weir.warehouse.damage import cannot_read, check_files, leftovers
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.errors import Damaged, StoreError
from weir.warehouse.feed import steps_of_version
from weir.warehouse.following import Follower, bring_forward, check_distinct, follow, leader_of, settle_followers
from weir.warehouse.place import Place
from weir.warehouse.reading import ArrowReader
from weir.warehouse.record import APPEND, LOAD, NOW, ArrivalStep, AsOf, Decided, Record, steps_of
from weir.warehouse.replacing import arrow_difference, frame_difference
from weir.warehouse.spark_reading import SparkReader
from weir.warehouse.spark_staging import stage_frame
from weir.warehouse.staging import Staged, Stager

Batch: TypeAlias = pa.Table | DataFrame | Staged


@dataclass(frozen=True)
class Applied:
    """What became of a commit. ``fresh`` is False for a batch that the table held already."""

    version: int
    fresh: bool


class ViewStore:
    """One view's table.

    >>> import tempfile, pyarrow as pa
    >>> from weir.algebra.types import Schema
    >>> from weir.warehouse.columns import WEIGHT
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = ViewStore.create(folder.name + "/sales", Schema.parse("city string, total int"))
    >>> _ = store.append(pa.table({"city": ["Ulm", "Ulm"], "total": [1, 2]}), {"shop": 7}, (1, 1), transaction_id=1)
    >>> gone = pa.table({"city": ["Ulm"], "total": [1], WEIGHT: [-1]})
    >>> store.append(gone, {"shop": 8}, (2, 2), transaction_id=2)
    Applied(version=2, fresh=True)
    >>> store.read_arrow().to_pylist(), store.read_arrow(AsOf(arrival=1)).num_rows, store.positions()
    ([{'city': 'Ulm', 'total': 2}], 2, {'shop': 8})
    >>> store.append(gone, {"shop": 8}, (2, 2), transaction_id=2)
    Applied(version=2, fresh=False)
    >>> folder.cleanup()
    """

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self.place, self.schema = log.place, log.schema
        self._transaction = log.head().transaction  # the last one this writer knows of
        self._settled = -1  # the last one whose followers are known to be there
        self._committer = Committer(log)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Schema,
        name: str = "",
        options: Mapping[str, str] | None = None,
        hash_bits: int = 64,
        after: int = 0,
    ) -> ViewStore:
        """A new, empty table. Columns that not every Delta client could read are refused by name.

        ``after``: the last arrival number of a table that this one takes the place of.
        """
        check_columns(schema)
        return cls(DeltaLog.create(Place.of(path, options), schema, name, hash_bits, after))

    @classmethod
    def open(cls, path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> ViewStore:
        return cls(DeltaLog.open(Place.of(path, options)))

    @staticmethod
    def exists(path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a Delta table, or what is left of one; opening it says whether it is a view's."""
        place = Place.of(path, options)
        try:
            return place.has_table() or bool(leftovers(place))
        except OSError as problem:
            raise cannot_read(place, problem) from problem

    def check(self) -> None:
        """Refuses a table whose newest state has a file that is missing or has another size than its commit says, or
        other rows than its commit says.
        """
        head = self.log.head()
        state = self.log.state(head.version)
        check_files(self.place, state.files.values())
        if state.live != head.live:
            raise self.place.damaged(f"its files hold {state.live} rows, its newest commit says {head.live}")

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: pa.Table | DataFrame, arrival: int) -> Staged:
        """Writes a delta's files without committing them. Its columns, WEIGHT (else 1), ARRIVAL (else ``arrival``)."""
        stager = self.stager(arrival, arrival)
        return stage_frame(stager, batch) if isinstance(batch, DataFrame) else stager.write(batch)

    def stager(self, arrival: int | None = None, last: int | None = None) -> Stager:
        """The same for the tasks of a Spark job: it can be pickled, and what it writes can be added up. ``last``: the
        arrival that the batch ends with.
        """
        return self._committer.stager(arrival, last)

    def append(
        self,
        batch: Batch | None,
        positions: Mapping[str, Position],
        arrivals: tuple[int, int] | None,
        transaction_id: int,
        steps: Sequence[ArrivalStep] = (),
        notes: Mapping[str, str] | None = None,
        followers: Sequence[Follower] = (),
        exact: bool = False,
    ) -> Applied:
        """Commits a delta with the positions it brings the view to. None is the empty delta: positions still move.

        A transaction id at or before the table's own is a replay and changes nothing. With ``followers``, this commit
        decides for their tables too. ``exact``: nothing is taken that is not there.
        """
        part = Follower(self, batch, APPEND, positions, arrivals, steps, notes or {}, exact)
        return self.advance(part, transaction_id, followers)

    def load(
        self,
        batch: Batch | None,
        positions: Mapping[str, Position],
        arrivals: tuple[int, int] | None,
        transaction_id: int,
        notes: Mapping[str, str] | None = None,
        followers: Sequence[Follower] = (),
    ) -> Applied:
        """Puts these rows in place of the view's: the first load, and every recomputation, which is an arrival. What is
        there already stays where it is; only the difference is written.
        """
        part = Follower(self, batch, LOAD, positions, arrivals, (), notes or {})
        return self.advance(part, transaction_id, followers)

    def settle(self) -> list[str]:
        """Brings tables forward that a commit has decided for and a crash has left behind. The URIs of those moved."""
        head = self.log.head()
        moved = []
        if (leader := leader_of(self.log, head)) is not None:
            decision = leader.head()
            moved += settle_followers(leader, decision)
            for decided in decision.followers:
                if (decided.table, decided.after) == (self.log.identity, self._transaction):
                    self._transaction = decided.record.transaction
            head = self.log.head()
        if self._settled != head.transaction:
            moved += settle_followers(self.log, head)
            self._settled = head.transaction
        return moved

    def advance(self, own: Follower, transaction: int, followers: Sequence[Follower]) -> Applied:
        """Commits this table's part, and with it those of its followers."""
        self.settle()
        head = self._committer.head_at(self._transaction)
        if transaction <= self._transaction:
            return Applied(head.version, fresh=False)
        check_distinct(self.log, followers)
        for each in followers:
            each.store._be_led_by(self, transaction)
        parts, written = [own, *(each.completed_from(own) for each in followers)], list[Decided]()
        try:
            for part in parts:
                written.append(part.store._write_part(part, transaction, self.place))
                reach(AFTER_FILES)
            mine, *others = written
            reach(BEFORE_COMMIT)
            version = self._committer.commit(replace(mine.record, followers=tuple(others)), mine.staged, mine.after)
        except StoreError:
            for part, waiting in zip(parts, written, strict=False):
                part.store.place.discard(waiting.staged.names)
            raise
        self._transaction = transaction
        for each, decided in zip(followers, others, strict=True):
            reach(BETWEEN_COMMITS)
            bring_forward(each.store._committer, decided, self.place.uri)
            each.store._transaction = transaction
        self._settled = transaction
        return Applied(version, fresh=True)

    def _be_led_by(self, deciding: ViewStore, transaction: int) -> None:
        """Makes ready for another table's decision: nothing else is open here, and who decides is said here."""
        head = self.log.head()
        if head.leader == self.place.path_to(deciding.place):
            self._transaction = head.transaction  # only the deciding table moves this one, and it knows its writer
        else:
            self.settle()
            head = self._committer.head_at(self._transaction)
            follow(self.log, deciding.log)
        if head.transaction >= transaction:
            raise StoreError(
                f"the table at '{self.place.uri}' is at transaction {head.transaction}, so '{deciding.place.uri}' "
                f"cannot decide transaction {transaction} for it: number on from the highest of both"
            )

    def _write_part(self, part: Follower, transaction: int, deciding: Place) -> Decided:
        """Writes the files of one table's part, and says what its commit will say."""
        head = self._committer.head_at(self._transaction)
        last = _last_arrival(head, part, self.place)
        staged, anew = self._staged(part, last)
        record = Record(
            part.kind,
            {**head.positions, **(part.positions or {})},
            last,
            transaction,
            part.arrivals,
            steps=steps_of(part.steps or ()),
            inside=staged.inside,
            notes=dict(part.notes),
            exact=part.exact or part.kind == LOAD,
            anew=anew,
            leader="" if deciding == self.place else self.place.path_to(deciding),
        )
        return Decided(deciding.path_to(self.place), self.log.identity, head.transaction, record, staged)

    def _staged(self, part: Follower, last: int) -> tuple[Staged, bool]:
        """And whether it takes the place of rows that cannot be read any more."""
        if part.kind != LOAD:
            return self._written(part.batch, last), False
        try:
            self.check()
            return self._replacing(part.batch, last), False
        except Damaged:
            return self._written(part.batch, last), True

    def _written(self, batch: Batch | None, last: int) -> Staged:
        if batch is None or isinstance(batch, Staged):
            return batch or Staged()
        return self.stage(batch, last)

    def _replacing(self, batch: Batch | None, last: int) -> Staged:
        if isinstance(batch, Staged):  # what it brings again of what is taken here cancels in the commit
            return batch + self.stage(arrow_difference(None, self.read_arrow(), self.schema), last)
        return self._written(self._difference(batch), last)

    def _difference(self, batch: pa.Table | DataFrame | None) -> pa.Table | DataFrame | None:
        """What makes these rows of the view's, with weights. Nothing is compared where the view has none."""
        state = self.log.state()
        if not state.live:
            return batch
        shown = ShownState(state)
        if isinstance(batch, DataFrame):
            there = SparkReader(self.place, self.schema, batch.sparkSession).rows(shown)
            return frame_difference(batch, there, self.schema)
        return arrow_difference(batch, ArrowReader(self.place, self.schema).rows(shown), self.schema)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, spark: SparkSession, as_of: AsOf = NOW, counted: bool = False) -> DataFrame:
        """The visible rows as a DataFrame: each as often as it counts, or once with its count in WEIGHT."""
        return SparkReader(self.place, self.schema, spark).read(find_state(self.log, as_of), counted)

    def read_arrow(self, as_of: AsOf = NOW, counted: bool = False) -> pa.Table:
        """The same as an Arrow table, without Spark; the whole view is held in memory."""
        return ArrowReader(self.place, self.schema).read(find_state(self.log, as_of), counted)

    def read_steps(self, version: int) -> pa.Table:
        """What a version has changed, by arrival: signed rows with WEIGHT and ARRIVAL."""
        return steps_of_version(self.log, version)

    def positions(self) -> dict[str, Position]:
        """Where every source is to be resumed."""
        return dict(self.log.head().positions)

    @property
    def head(self) -> Record:
        """The newest commit: positions, last arrival, transaction."""
        return self.log.head()

    def history(self) -> list[Record]:
        """Every kept version, oldest first."""
        return [self.log.record(version) for version in self.log.versions()]

    # -- care -------------------------------------------------------------------------------------------------------

    def care(self, limits: Limits = COMMON) -> list[str]:
        """Does what is due, also beside a writer: no visible row changes. What was done: "merge", "purge", "index",
        "checkpoint".
        """
        return rewriting.care(self._committer, limits)

    def compact(self) -> int | None:
        """Rewrites every small file, and every one of which rows are gone. None: there was nothing to do."""
        return rewriting.compact(self._committer)

    def publish(self, path: str | os.PathLike[str], as_of: AsOf = NOW) -> int:
        """A plain Delta table of the visible rows at another place, for clients that know no deletion vectors."""
        return publishing.publish(self.log, Place.of(path, self.place.options), as_of)

    def forget(self, before: AsOf) -> list[str]:
        """Gives up the states before this one, and the files that only they needed."""
        return retention.forget(self.log, before)

    def clean_orphans(self, older_than: timedelta = retention.GRACE) -> list[str]:
        """Deletes files that no kept version names: what a killed writer left. Young files may be a living one's."""
        self.settle()  # files that wait for a follower's commit are no orphans
        return retention.clean_orphans(self.log, older_than)


def _last_arrival(head: Record, part: Follower, place: Place) -> int:
    if part.arrivals is None:
        if part.kind == LOAD and head.transaction:
            raise StoreError(
                f"rows in place of others are a state of their own: number their load after arrival "
                f"{head.last_arrival} of the view at '{place.uri}'"
            )
        return head.last_arrival
    first, last = part.arrivals
    if first > last or (first <= head.last_arrival and head.transaction):
        raise StoreError(
            f"arrivals {first} to {last} cannot follow arrival {head.last_arrival} of the view at '{place.uri}'"
        )
    return last
