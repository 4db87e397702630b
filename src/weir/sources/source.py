"""What every kind of source offers: describe, load, visit, acknowledge.

The algorithms stand on one promise: when an answer arrives, exactly the updates it saw have arrived before it. A real
database sends changes and answers separately, so every contact is one **visit**: it opens one database snapshot and
delivers the transactions that became visible since the last visit, and the position. With ``hold`` the snapshot stays
open as a thing of its own, a **held snapshot**, in which every question is asked until it is released; meanwhile the
source goes on visiting, and several may be held. A kind of source is exact if its visit is, and one oracle proves it:
*every answer equals the replay of exactly the transactions delivered before it*.

A position names a set of transactions (a prefix of some legal serial order), not always a log offset. It is opaque text
that the warehouse stores with its commit and hands back after a restart.

Changes come out in columns, not row by row: one Arrow table per changed table and visit, with the needed columns and
two more, ``WEIGHT`` (+1 inserted, -1 deleted; a modification is one of each) and ``TRANSACTION`` (the number of the
transaction in ``Visit.transactions``).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weir.algebra.bag import WEIGHT as WEIGHT
from weir.algebra.catalog import Relation, Table
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.messages import GlobalTransaction

SourcePosition = str
Answers = tuple[pa.Table, ...]  # per lookup its rows, exactly ``lookup.columns``, a row as often as it occurs
TRANSACTION = "\0transaction"  # like WEIGHT no name that a database takes
RELEASED = "this snapshot was released; visit with hold again"
LOAD_AGAIN = "load the views that use this source again"  # the way out of every LoadAgain and SchemaChanged


class SourceError(WeirError):
    """A source cannot go on as it is: names the source, what is wrong, and what to do."""


class LoadAgain(SourceError):
    """The change log no longer reaches back to the warehouse's position (lost slot, purged log)."""


class SchemaChanged(SourceError):
    """A table in use has changed its shape; nothing wrong was delivered. Names what changed and what to do."""


class CannotWatch(SourceError):
    """What is asked for cannot be watched as it is (rights, capture): names the table and what mends it."""


@dataclass(frozen=True)
class Finding:
    """A missing right, setting, key or index, with the SQL or setting that mends it; ``weir check`` reports them."""

    severity: str  # "error" (cannot run) or "warning" (runs, at a price)
    problem: str
    remedy: str = ""
    table: str = ""  # empty when it concerns the whole source


@dataclass(frozen=True)
class Description:
    """What a source has, as its own catalogue tells it. Columns of types we cannot map are in ``unmapped`` only."""

    tables: tuple[Table, ...]
    unmapped: Mapping[Relation, Mapping[str, str]] = field(default_factory=dict)  # column -> the database's type
    findings: tuple[Finding, ...] = ()
    rows: Mapping[Relation, int] = field(default_factory=dict)  # about so many, from the source's own statistics
    refused: Mapping[Relation, str] = field(default_factory=dict)  # what looks like a table and cannot be read: why not


@dataclass(frozen=True)
class Transaction:
    """One delivered transaction. ``identifier`` is the source's own (a transaction id, a log position, a number)."""

    identifier: str
    part_of: GlobalTransaction | None = None


@dataclass(frozen=True)
class Visit:
    """What one snapshot showed: transactions in a legal serial order, never split; and the position.

    ``truncations`` names, per table, the transactions (by number) that deleted everything it held before them, where
    the log does not have those rows (TRUNCATE); ``changes`` then holds only what came after it in that
    transaction.
    """

    transactions: tuple[Transaction, ...]
    changes: Mapping[Relation, pa.Table]
    position: SourcePosition
    truncations: Mapping[Relation, tuple[int, ...]] = field(default_factory=dict)
    held: HeldSnapshot | None = None  # with ``hold``


@dataclass(frozen=True)
class Load:
    """A first load: every watched table at one position, in a snapshot that stays open until it is released."""

    position: SourcePosition
    held: HeldSnapshot


@dataclass(frozen=True)
class Partition:
    """One part of a table, picklable, read in a snapshot. The parts together are the table, once."""

    relation: Relation
    columns: tuple[str, ...]
    detail: Any = None
    is_small: bool = True  # every task could hold all of its rows


class SnapshotReader(ABC):
    """Lookups in one snapshot, from whatever process."""

    @abstractmethod
    def answer(self, lookups: Sequence[Lookup]) -> Answers: ...

    @abstractmethod
    def close(self) -> None: ...


class SharedReader(SnapshotReader):
    """Reads a snapshot that is shared: whole tables too."""

    @abstractmethod
    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""

    @abstractmethod
    def read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        """As ``HeldSnapshot.read_plainly``."""


class HeldSnapshot(ABC):
    """What one visit or load showed, open for questions until it is released.

    It has its own connection: its source goes on without it, and closing the source does not end it. Any thread may
    ask, one is answered at a time. Writers go on meanwhile (TRUNCATE and DDL may wait).
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._ended = ""  # why it answers no more
        self._asking = threading.Lock()
        self._half_read = False

    @property
    def token(self) -> Any:
        """Picklable; its ``reader()`` reads the snapshot in any process. None: it cannot be shared."""
        return None

    def look(self, lookups: Sequence[Lookup]) -> Answers:
        """Lookups in the snapshot."""
        with self._asking:
            self._check()
            return self._look(lookups)

    def parts(self) -> tuple[Partition, ...]:
        """Every watched table as the snapshot shows it, in parts for ``read``."""
        with self._asking:
            self._check()
            return self._parts()

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """The rows of one part; who asks something else meanwhile waits until they have been read to their end."""
        with self._reading_alone():
            yield from self._read(partition)

    def whole_tables(self) -> tuple[Partition, ...]:
        """Every watched table as the snapshot shows it, undivided, for ``read_plainly``."""
        with self._asking:
            self._check()
            return self._whole_tables()

    def read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        """The rows of a whole table as the plain driver converts them (``plain.py``): the audit's way.

        Nothing that ``read``, ``look`` or a visit decodes or divides by takes part. Otherwise as ``read``.
        """
        with self._reading_alone():
            yield from self._read_plainly(table)

    @contextmanager
    def _reading_alone(self) -> Iterator[None]:
        with self._asking:
            self._check()
            self._half_read = True
            try:
                yield
            finally:
                self._half_read = False

    def release(self) -> None:
        """Ends it, and a part that is half read with it; one that is released already stays so."""
        waited = self._asking.acquire(blocking=not self._half_read)
        try:
            if self._ended != RELEASED:
                self._ended = RELEASED
                self._end()
        finally:
            if waited:
                self._asking.release()

    def _check(self) -> None:
        if self._ended:
            raise SourceError(f"source '{self.source}': {self._ended}")

    def _lost(self, reason: str) -> str:
        """Its connection is gone, and the snapshot with it: from now on every question is answered so."""
        self._ended = f"the held snapshot was lost with its connection ({reason}); visit or load again"
        return f"source '{self.source}': {self._ended}"

    @abstractmethod
    def _look(self, lookups: Sequence[Lookup]) -> Answers: ...

    @abstractmethod
    def _parts(self) -> tuple[Partition, ...]: ...

    @abstractmethod
    def _read(self, partition: Partition) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _whole_tables(self) -> tuple[Partition, ...]: ...

    @abstractmethod
    def _read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _end(self) -> None: ...


class Source(ABC):
    """A connection to one source. Not shared between threads; picklable options make a new one elsewhere."""

    name: str

    @property
    def locks_to_hold(self) -> bool:
        """Whether opening a snapshot to hold makes writers wait for a moment: then it is not done in vain."""
        return False

    @abstractmethod
    def describe(self) -> Description:
        """Tables, types, keys, indexes, foreign keys, and what is missing for ``watch``."""

    @abstractmethod
    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        """The tables and columns that views need. Called before load and visit; refuses unmappable columns by name."""

    @abstractmethod
    def load(self) -> Load:
        """A first load: a snapshot of all watched tables at a known position. Visits bring what comes after."""

    @abstractmethod
    def resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition] = ()) -> None:
        """Deliver from here on what is not in ``position``. Raises LoadAgain when the log no longer reaches back.

        ``boundaries`` are later positions, of views that are ahead: no delivered transaction reaches across one. A
        watched table is followed from the oldest of these positions that covers it (a position covers what was watched
        when it was made); one that none covers from the next visit on, whose snapshot its first view is loaded from.
        """

    @abstractmethod
    def order(self, position: SourcePosition) -> Any:
        """A sort key: of two positions of this source, the older one has the smaller."""

    def distance(self, older: SourcePosition, newer: SourcePosition) -> str:
        """How much of the log lies between two positions, in words; empty where the kind cannot tell."""
        return ""

    @abstractmethod
    def holds(self, position: SourcePosition, transaction: Transaction) -> bool:
        """Whether a position includes a transaction that is delivered (again)."""

    @abstractmethod
    def visit(self, hold: bool = False) -> Visit:
        """One visit. With ``hold`` its snapshot is the visit's ``held``."""

    @abstractmethod
    def acknowledge(self, position: SourcePosition) -> None:
        """The warehouse has durably committed ``position``: the source may forget what is in it. Not called before."""

    @abstractmethod
    def close(self) -> None:
        """Ends its connections; held snapshots stay. So does the log: ``resume`` goes on from a committed position."""
