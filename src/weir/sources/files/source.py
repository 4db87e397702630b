"""Files as a source: successive snapshots of a table, compared as bags; the difference is one transaction.

A visit looks for snapshots that became complete since the last one, delivers the difference that each makes, in the
order of their names, and answers from the newest one that it has delivered. So FIFO holds by construction: nothing is
read from a snapshot whose changes are not delivered with it. A snapshot that is missing, torn or still being written
is held back (``held_back`` says why); the answers then still come from the last one delivered.

Snapshots must not change once they are complete; one that did, or that was removed while it is still needed, is
noticed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.sources.files.catalogue import FilesCatalogue, SnapshotStep
from weir.sources.files.compare import broken_key, difference
from weir.sources.files.csv_copy import CsvCopies, WorkFolder
from weir.sources.files.lookup import HeldFiles, Shown
from weir.sources.files.options import FilesOptions
from weir.sources.files.position import holds, identifier_of, order_of, parts_of, position_of
from weir.sources.files.shapes import checked
from weir.sources.files.snapshots import Incomplete, TableSnapshot
from weir.sources.life import CLOSE, LOAD, RESUME, VISIT, WATCH, SourceLife
from weir.sources.source import (
    LOAD_AGAIN,
    TRANSACTION,
    Description,
    Finding,
    Load,
    LoadAgain,
    Source,
    SourceError,
    SourcePosition,
    Transaction,
    Visit,
)

MOST_SNAPSHOTS = 10  # delivered by one visit; the next goes on


class FilesSource(Source):
    """One folder of snapshots."""

    def __init__(self, options: FilesOptions, spark: SparkSession | None = None) -> None:
        self.options, self.name = options, options.name
        self.held_back: tuple[Finding, ...] = ()  # snapshots that the last look found and could not use yet
        self._catalogue = FilesCatalogue(options)
        self._session = spark
        self._life = SourceLife(options.name)
        self._watched: dict[Relation, Schema] = {}
        self._stored: dict[Relation, Schema] = {}  # watched columns and the key's
        self._at: dict[Relation, TableSnapshot] = {}  # delivered
        self._boundaries: list[Mapping[str, str]] = []  # table -> snapshot's name, of views that are ahead
        self._beginning: set[Relation] = set()  # tables that no position has: followed from the next visit on
        self._work: WorkFolder | None = None
        self._holding: list[Shown] = []  # by snapshots that are not released yet
        self._sharing = threading.Lock()

    # -- what there is ----------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        return self._catalogue.describe()

    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        watched, stored = {}, {}
        with self._life.during(WATCH):
            for relation, names in columns.items():
                schema = self._catalogue.schema(relation, names)
                watched[relation] = schema.only(names)
                stored[relation] = schema.only(dict.fromkeys([*names, *self._key(relation)]))
            self._watched, self._stored = watched, stored

    def _key(self, relation: Relation) -> tuple[str, ...]:
        return tuple(self.options.keys.get(relation.table, ()))

    @property
    def _spark(self) -> SparkSession:
        if self._session is None:
            self._session = SparkSession.builder.getOrCreate()
        return self._session

    # -- load -------------------------------------------------------------------------------------------------------

    def load(self) -> Load:
        """The newest snapshot of every watched table."""
        with self._life.during(LOAD):
            self._boundaries, self._beginning = [], set()
            self._at = self._newest()
            return Load(position_of(self._at), self._held(self._at))

    def _newest(self) -> dict[Relation, TableSnapshot]:
        at: dict[Relation, TableSnapshot] = {}
        for _, moved in self._steps({}):
            at |= moved
        if missing := [relation for relation in self._watched if relation not in at]:
            why = "; ".join(finding.problem for finding in self.held_back) or "its folder holds no snapshot"
            raise SourceError(f"table {missing[0]} has no complete snapshot to load: {why}")
        self._check_loadable(at)
        return at

    def _check_loadable(self, at: Mapping[Relation, TableSnapshot]) -> None:
        for relation, snapshot in at.items():
            try:
                self._check(relation, snapshot)
                self._readable(relation, snapshot)
            except Incomplete as problem:
                raise SourceError(
                    f"snapshot {snapshot.place} of table {relation} cannot be loaded: {problem}"
                ) from None

    # -- visit ------------------------------------------------------------------------------------------------------

    def resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition] = ()) -> None:
        with self._life.during(RESUME):
            self._resume(position, boundaries)

    def _resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition]) -> None:
        later = [parts_of(boundary, self.name) for boundary in sorted(boundaries, key=self.order)]
        known = [parts_of(position, self.name), *later]
        at = {}
        for relation in self._watched:
            covering = [self._delivered(relation, *one[relation.table]) for one in known if relation.table in one]
            at[relation] = covering[0] if covering else self._first_of(relation, self.order(position))
        self._at = at
        self._beginning = {relation for relation in at if not any(relation.table in one for one in known)}
        self._boundaries = [{table: name for table, (name, _) in parts.items()} for parts in later]

    def order(self, position: SourcePosition) -> list[str]:
        return order_of(position, self.name)

    def holds(self, position: SourcePosition, transaction: Transaction) -> bool:
        return holds(position, transaction.identifier, self.name)

    def _first_of(self, relation: Relation, delivered: Sequence[str]) -> TableSnapshot:
        """Where a table begins that no position has: where the others are, if their snapshots belong together."""
        found = self._catalogue.complete(relation)
        if not found:
            raise SourceError(f"table {relation} has no complete snapshot to begin with")
        beside = [one for one in found if self.options.together and delivered and one.name <= delivered[0]]
        return beside[-1] if beside else found[0 if self.options.together else -1]

    def _delivered(self, relation: Relation, name: str, mark: str) -> TableSnapshot:
        """The snapshot that the warehouse has, still as it was."""
        try:
            snapshot = self._catalogue.shelf(relation.table).open(name)
        except Incomplete as problem:
            raise LoadAgain(
                f"snapshot '{name}' of table {relation}, which was delivered: {problem}; {LOAD_AGAIN}"
            ) from None
        if snapshot.fingerprint != mark:
            raise LoadAgain(f"snapshot {snapshot.place} was changed after it had been delivered: {LOAD_AGAIN}")
        self._catalogue.check_shape(relation, snapshot, self._stored[relation])
        return snapshot

    def visit(self, hold: bool = False) -> Visit:
        with self._life.during(VISIT):
            return self._visit(hold)

    def _visit(self, hold: bool) -> Visit:
        self._check_there(self._at.items())
        at, news = dict(self._at), _News()
        for name, moved in self._apart(self._steps(at)[:MOST_SNAPSHOTS]):
            try:
                news.add(name, self._changes(at, {r: new for r, new in moved.items() if r not in self._beginning}))
            except Incomplete as problem:
                self.held_back += (Finding("warning", f"snapshot '{name}' waits: {problem}"),)
            else:
                at |= moved
        self._check_loadable({relation: at[relation] for relation in self._beginning})
        held = self._held(at) if hold else None
        try:
            self._check_there(at.items())
        except SourceError:
            if held is not None:
                held.release()
            raise
        self._at, self._beginning = at, set()
        return Visit(tuple(news.transactions), news.changes(), position_of(at), held=held)

    def _changes(
        self, at: Mapping[Relation, TableSnapshot], moved: Mapping[Relation, TableSnapshot]
    ) -> dict[Relation, pa.Table]:
        """What a step changes, per table; Incomplete when its files change meanwhile."""
        try:
            found = {relation: self._difference(relation, at[relation], new) for relation, new in moved.items()}
        except SourceError:
            self._check_settled(moved)
            self._check_there(at.items())
            raise
        self._check_settled(moved)
        return found

    def _check_settled(self, moved: Mapping[Relation, TableSnapshot]) -> None:
        if not all(snapshot.is_unchanged() for snapshot in moved.values()):
            raise Incomplete("its files changed while they were read")

    def _difference(self, relation: Relation, old: TableSnapshot, new: TableSnapshot) -> pa.Table:
        self._check(relation, new)
        before, after = self._readable(relation, old), self._readable(relation, new)
        return checked(difference(self._spark, before, after, self._watched[relation]), str(new.place))

    def _check(self, relation: Relation, snapshot: TableSnapshot) -> None:
        """The snapshot has the watched columns, and its key is one."""
        self._catalogue.check_shape(relation, snapshot, self._stored[relation])
        key = self._key(relation)
        if key and (
            example := broken_key(self._spark, self._readable(relation, snapshot), self._stored[relation], key)
        ):
            raise SourceError(
                f"snapshot {snapshot.place}: ({', '.join(key)}) is declared as the key of table {relation}, but "
                f"({example}) occurs twice or has a NULL; mend the snapshot or remove it, or change the declared key"
            )

    def _check_there(self, at: Iterable[tuple[Relation, TableSnapshot]]) -> None:
        for relation, snapshot in at:
            if not snapshot.is_unchanged():
                raise LoadAgain(
                    f"snapshot {snapshot.place} of table {relation} was changed or removed while it was needed; keep a "
                    f"snapshot until the next one has been committed; {LOAD_AGAIN}"
                )

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _steps(self, at: Mapping[Relation, TableSnapshot]) -> list[SnapshotStep]:
        """The snapshots after ``at``, in the order of their names; what must wait goes to ``held_back``."""
        steps, self.held_back = self._catalogue.steps(
            {relation: at[relation].name if relation in at else "" for relation in self._watched}
        )
        return steps

    def _apart(self, steps: Iterable[SnapshotStep]) -> Iterator[SnapshotStep]:
        """A step whose tables only some views have already, as two: one that they have, and one that they have not.

        So it was when a table's snapshot was late and came by itself.
        """
        for name, moved in steps:
            groups: dict[int, dict[Relation, TableSnapshot]] = {}
            for relation, snapshot in moved.items():
                ahead = sum(boundary.get(relation.table, "") >= name for boundary in self._boundaries)
                groups.setdefault(-ahead, {})[relation] = snapshot
            for _, group in sorted(groups.items(), key=lambda item: item[0]):
                yield name, group

    def _readable(self, relation: Relation, snapshot: TableSnapshot) -> TableSnapshot:
        """The snapshot as Parquet."""
        if snapshot.format == "parquet":
            return snapshot
        return self._copies.copy_of(snapshot, self._stored[relation])

    @property
    def _copies(self) -> CsvCopies:
        if self._work is None:
            self._work = WorkFolder(self.options.work)
        return CsvCopies(self.options, self._work.path)

    def _held(self, at: Mapping[Relation, TableSnapshot]) -> HeldFiles:
        """Whoever sees the folder can read it, as Spark's executors must anyway."""
        readable = {relation: self._readable(relation, snapshot) for relation, snapshot in at.items()}
        shown = Shown(readable, dict(self._watched), dict(at), self.options)
        work = self._work.shared() if self._work is not None else None
        with self._sharing:
            self._holding.append(shown)
        return HeldFiles(self.name, shown, partial(self._released, shown, work))

    def _released(self, shown: Shown, work: WorkFolder | None) -> None:
        with self._sharing:
            self._holding = [one for one in self._holding if one is not shown]
        if work is not None:
            work.leave()

    # -- after the commit -------------------------------------------------------------------------------------------

    def acknowledge(self, position: SourcePosition) -> None:
        """Forgets copies of older snapshots; deletes older snapshots themselves only if the options say so.

        What is held is left for the next time.
        """
        for table, (delivered, _) in parts_of(position, self.name).items():
            name = min([delivered, *self._held_names(Relation(self.name, table))])
            if self._work is not None:
                self._copies.forget_before(table, name)
            if self.options.delete_acknowledged:
                self._catalogue.shelf(table).delete_before(name)

    def _held_names(self, relation: Relation) -> list[str]:
        with self._sharing:
            return [shown.snapshots[relation].name for shown in self._holding if relation in shown.snapshots]

    def close(self) -> None:
        self._life.move(CLOSE)
        if self._work is not None:
            self._work.leave()
        self._work = None


@dataclass
class _News:
    """What one visit delivers; a snapshot that changes nothing is no transaction."""

    transactions: list[Transaction] = field(default_factory=list)
    tables: dict[Relation, list[pa.Table]] = field(default_factory=dict)

    def add(self, name: str, found: Mapping[Relation, pa.Table]) -> None:
        changed = {relation: table for relation, table in found.items() if table.num_rows}
        for relation, table in changed.items():
            number = pa.array([len(self.transactions)] * table.num_rows, pa.int32())
            self.tables.setdefault(relation, []).append(table.append_column(TRANSACTION, number))
        if changed:
            self.transactions.append(Transaction(identifier_of(name, (relation.table for relation in changed))))

    def changes(self) -> dict[Relation, pa.Table]:
        return {relation: pa.concat_tables(tables) for relation, tables in self.tables.items()}
