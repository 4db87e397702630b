"""One table's commit of waiting files: on top of whatever came in between, or not at all."""

from __future__ import annotations

import threading
from dataclasses import replace

from weir.warehouse.changing import Preparation, Prepared
from weir.warehouse.delta_log import DeltaLog, FileChange, Outrun
from weir.warehouse.errors import StoreError, WriterConflict
from weir.warehouse.index_runs import INDEX
from weir.warehouse.record import LOAD, Record
from weir.warehouse.row_index import MOST_RUNS, RowIndex
from weir.warehouse.staging import Staged, Stager


class Committer:
    """A table's log with the index that finds its rows."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self.index = RowIndex(self.stager())
        self.turn = threading.RLock()  # of those who commit

    def stager(self, arrival: int | None = None, last: int | None = None) -> Stager:
        return Stager(self.log.place, self.log.schema, self.log.hash_bits, arrival, last)

    def head_at(self, transaction: int) -> Record:
        """The newest commit, which is of this transaction or of somebody else."""
        head = self.log.head()
        if head.transaction != transaction:
            raise WriterConflict(
                f"another writer has appended to the view at '{self.log.place.uri}': transaction {head.transaction} is "
                f"there, this one had last seen {transaction}. Nothing of this one's was written. "
                f"Stop one of the two, then open the view again."
            )
        return head

    def commit(self, record: Record, staged: Staged, after: int) -> int:
        """Rewritings of files may come in between, another writer's commit is a conflict. ``after``: the transaction
        that this one follows.
        """
        with self.turn:
            while True:
                head = self.head_at(after)
                prepared = self._prepared(head, record, staged)
                told = replace(record, live=prepared.live, owed=prepared.owed)
                try:
                    version = self.log.commit(head.version, told, prepared.change)
                except Outrun:
                    self.log.place.discard(prepared.made)
                    continue
                except StoreError:
                    self.log.place.discard(prepared.made)
                    raise
                self._note(prepared, version)
                return version

    def tidy(self) -> bool:
        """Merges the index, where it lies in many files."""
        with self.turn:
            if len(self.log.place.listing(INDEX)) <= MOST_RUNS:
                return False
            self.index.follow(self.log.state())
            return self.index.tidy()

    def _prepared(self, head: Record, record: Record, staged: Staged) -> Prepared:
        there = self.log.state(head.version)
        state = replace(there, files={}) if record.anew else there
        if head.owed or any(part.taken for part in staged.parts):
            self.index.follow(state)
        owed = "" if record.kind == LOAD else head.owed
        preparation = Preparation(self.stager(), state, self.index, record.last_arrival)
        prepared = preparation.prepare(staged, owed, record.exact)
        if not record.anew:
            return prepared
        return replace(prepared, change=FileChange(prepared.change.added, list(there.files.values())))

    def _note(self, prepared: Prepared, version: int) -> None:
        """The index learns of the new files, and what the commit does not name goes. The commit stands: an index that
        could not be written, or a log that could not be read just now, is no reason to say that it failed.
        """
        try:
            self.index.adopt(prepared.runs, self.log.state(version))
        except StoreError:
            self.index = RowIndex(self.stager())
        self.log.place.discard(prepared.unused)
