"""The view store: a view as a Delta table, appended to exactly once, read at any kept state.

State is the table's own log and nothing else. One writer appends; nets and folds may run beside it, in other threads
or processes, and any number of readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weir.algebra.types import Schema
from weir.messages import Position
from weir.points import AFTER_FILES, BEFORE_COMMIT, BETWEEN_COMMITS, COMPACTING, reach
from weir.warehouse import publishing, retention
from weir.warehouse.addressing import find_state
from weir.warehouse.arrow_engine import ArrowEngine
from weir.warehouse.care import Limits
from weir.warehouse.columns import check_columns
from weir.warehouse.damage import cannot_read, check_files, leftovers
from weir.warehouse.delta_log import DeltaLog, Outrun, State
from weir.warehouse.errors import StoreError, WriterConflict
from weir.warehouse.following import Follower, bring_forward, check_distinct, follow, leader_of, settle_followers
from weir.warehouse.place import Place
from weir.warehouse.record import APPEND, FOLD, LOAD, NET, NOW, ArrivalStep, AsOf, Decided, Record, steps_of
from weir.warehouse.spark_engine import DRIVER_BYTES, SparkEngine
from weir.warehouse.staging import Staged, Stager
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL, DataFile

Batch: TypeAlias = pa.Table | DataFrame | Staged
StoreEngine: TypeAlias = ArrowEngine | SparkEngine
Rewriting: TypeAlias = Callable[[State, int], list[DataFile]]


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
        """Refuses a table whose newest state has a file that is missing or has another size than its commit says."""
        check_files(self.place, self.log.state().files)

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: pa.Table | DataFrame, arrival: int) -> Staged:
        """Writes a delta's files without committing them. Its columns, WEIGHT (else 1), ARRIVAL (else ``arrival``)."""
        engine = self._engine(batch.sparkSession if isinstance(batch, DataFrame) else None)
        return Staged(tuple(engine.stage(batch, arrival)))

    def stager(self, arrival: int | None = None) -> Stager:
        """The same for the tasks of a Spark job: it can be pickled, and what it writes can be added up."""
        return Stager(self.place, self.schema, self.log.hash_bits, arrival)

    def append(
        self,
        batch: Batch | None,
        positions: Mapping[str, Position],
        arrivals: tuple[int, int] | None,
        transaction_id: int,
        steps: Sequence[ArrivalStep] = (),
        notes: Mapping[str, str] | None = None,
        followers: Sequence[Follower] = (),
    ) -> Applied:
        """Commits a delta with the positions it brings the view to. None is the empty delta: positions still move.

        A transaction id at or before the table's own is a replay and changes nothing. With ``followers``, this commit
        decides for their tables too.
        """
        part = Follower(self, batch, APPEND, positions, arrivals, steps, notes or {})
        return self._advance(part, transaction_id, followers)

    def load(
        self,
        batch: Batch | None,
        positions: Mapping[str, Position],
        arrivals: tuple[int, int] | None,
        transaction_id: int,
        notes: Mapping[str, str] | None = None,
        followers: Sequence[Follower] = (),
    ) -> Applied:
        """Puts these rows in place of the view's: the first load, and every recomputation, which is an arrival."""
        part = Follower(self, batch, LOAD, positions, arrivals, (), notes or {})
        return self._advance(part, transaction_id, followers)

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

    def _advance(self, own: Follower, transaction: int, followers: Sequence[Follower]) -> Applied:
        self.settle()
        head = self._own_head()
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
            version = self._commit_after_own(replace(mine.record, followers=tuple(others)), mine.files)
        except StoreError:
            for part, waiting in zip(parts, written, strict=False):
                part.store.place.discard(file.name for file in waiting.files)
            raise
        self._transaction = transaction
        for each, decided in zip(followers, others, strict=True):
            reach(BETWEEN_COMMITS)
            bring_forward(each.store.log, decided, self.place.uri)
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
            head = self._own_head()
            follow(self.log, deciding.log)
        if head.transaction >= transaction:
            raise StoreError(
                f"the table at '{self.place.uri}' is at transaction {head.transaction}, so '{deciding.place.uri}' "
                f"cannot decide transaction {transaction} for it: number on from the highest of both"
            )

    def _write_part(self, part: Follower, transaction: int, deciding: Place) -> Decided:
        """Writes the files of one table's part, and says what its commit will say."""
        head = self._own_head()
        last = _last_arrival(head, part, self.place)
        files = self._files_of(part.kind, part.batch, last)
        record = Record(
            part.kind,
            {**head.positions, **(part.positions or {})},
            last,
            transaction,
            part.arrivals,
            steps=steps_of(part.steps or ()),
            notes=dict(part.notes),
            leader="" if deciding == self.place else self.place.path_to(deciding),
        )
        path = deciding.path_to(self.place)
        return Decided(path, self.log.identity, head.transaction, with_size(record, files), tuple(files))

    def _commit_after_own(self, record: Record, files: Sequence[DataFile]) -> int:
        """Commits on top of whatever nets and folds came in between; another writer's append is a conflict."""
        while True:
            head = self._own_head()
            removed = self.log.state(head.version).files if record.kind == LOAD else ()
            try:
                return self.log.commit(head.version, record, files, removed)
            except Outrun:
                continue

    def _own_head(self) -> Record:
        head = self.log.head()
        if head.transaction != self._transaction:
            raise WriterConflict(
                f"another writer has appended to the view at '{self.place.uri}': transaction {head.transaction} is "
                f"there, this one had last seen {self._transaction}. Nothing of this one's was written. "
                f"Stop one of the two, then open the view again."
            )
        return head

    def _files_of(self, kind: str, batch: Batch | None, arrival: int) -> list[DataFile]:
        if batch is None:
            return []
        if isinstance(batch, Staged):
            return list(batch.files)
        engine = self._engine(batch.sparkSession if isinstance(batch, DataFrame) else None)
        return engine.load(batch, arrival) if kind == LOAD else engine.stage(batch, arrival)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, spark: SparkSession, as_of: AsOf = NOW, counted: bool = False) -> DataFrame:
        """The visible rows as a DataFrame: each as often as it counts, or once with its count in WEIGHT."""
        return SparkEngine(self.log, spark).read(find_state(self.log, as_of), counted)

    def read_arrow(self, as_of: AsOf = NOW, counted: bool = False) -> pa.Table:
        """The same as an Arrow table, without Spark; the whole view is held in memory."""
        return ArrowEngine(self.log).read(find_state(self.log, as_of), counted)

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

    def net(self, spark: SparkSession | None = None) -> int | None:
        """Sums up the log, so that reading is one scan. Changes no visible row. None: there was nothing to do."""
        return self._rewrite(NET, (NET_OLD, NET_NEW, TAIL), self._engine(spark).net)

    def fold(self, spark: SparkSession | None = None) -> int | None:
        """Works the log into the base. Changes no visible row. None: there was nothing to do."""
        return self._rewrite(FOLD, (BASE, NET_OLD, NET_NEW, TAIL), self._engine(spark).fold)

    def log_share(self) -> float:
        """The log's rows per row of the base: when it grows past a tenth or so, folding pays."""
        state = self.log.state()
        return state.rows(NET_OLD, NET_NEW, TAIL) / max(state.rows(BASE), 1)

    def care(
        self,
        spark: SparkSession | None = None,
        net_after: int = Limits.net_after,
        fold_after: float = Limits.fold_after,
        net_files: int = Limits.net_files,
        few: int = Limits.few,
    ) -> list[str]:
        """Nets and folds what has grown past its limit, also beside a writer. What was done: "net", "fold"."""
        limits, done = Limits(net_after, net_files, fold_after, few), []
        for kind, asked, compact in ((NET, limits.ask_net, self.net), (FOLD, limits.ask_fold, self.fold)):
            state = self.log.state()
            engine = None if state.bytes("") <= DRIVER_BYTES else spark  # a small view is quicker without a Spark job
            if asked(state) and compact(engine) is not None:
                done.append(kind)
        return done

    def _rewrite(self, kind: str, folders: tuple[str, ...], write: Rewriting) -> int | None:
        """Other files for the same rows, committed on top of any appends that came meanwhile.

        They came to the log's end and what was read is still there, so the exchange is as right as before. When another
        compaction was faster, the files read are gone: then there is nothing to do any more.
        """
        head = self.log.head()
        state = self.log.state(head.version)
        if not state.files_in(TAIL) and not (kind == FOLD and state.files_in(NET_OLD, NET_NEW)):
            return None
        reach(COMPACTING)
        written = write(state, head.last_arrival)
        removed = state.files_in(*folders)
        reach(COMPACTING)
        try:
            version = self._exchange(kind, state, removed, written)
        except StoreError:
            self.place.discard(file.name for file in written)
            raise
        reach(COMPACTING)
        return version

    def _exchange(self, kind: str, read: State, removed: Sequence[DataFile], written: list[DataFile]) -> int | None:
        while True:
            head = self.log.head()
            now = self.log.state(head.version)
            if not set(read.names("")) <= set(now.names("")):
                self.place.discard(file.name for file in written)
                return None
            record = with_size(replace(head, kind=kind, arrivals=None, steps=()), written)
            try:
                return self.log.commit(head.version, record, written, removed)
            except Outrun:
                continue

    def publish(self, path: str | os.PathLike[str], as_of: AsOf = NOW, spark: SparkSession | None = None) -> int:
        """A plain Delta table of the visible rows for outside tools, replaced as a whole in one commit."""
        rows = self.read_arrow(as_of) if spark is None else self.read(spark, as_of)
        return publishing.publish(self.log, Place.of(path, self.place.options), rows, as_of)

    def forget(self, before: AsOf) -> list[str]:
        """Gives up the states before this one, and the files that only they needed."""
        return retention.forget(self.log, before)

    def clean_orphans(self, older_than: timedelta = retention.GRACE) -> list[str]:
        """Deletes files that no kept version names: what a killed writer left. Young files may be a living one's."""
        self.settle()  # files that wait for a follower's commit are no orphans
        return retention.clean_orphans(self.log, older_than)

    def _engine(self, spark: SparkSession | None) -> StoreEngine:
        return ArrowEngine(self.log) if spark is None else SparkEngine(self.log, spark)


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


def with_size(record: Record, files: Sequence[DataFile]) -> Record:
    return replace(record, rows=sum(file.rows for file in files), bytes=sum(file.size for file in files))
