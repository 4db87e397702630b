"""From a delta's waiting files to the change of one version: what is brought, where what is taken lies, and the feed.

The places of what is taken belong to one version. Where another commit comes in between (a rewriting of files), all of
this is done again on top of it; the waiting files stay as they are.

Parts of one delta can bring and take the same row, because each was swept by itself. Then the row is in a file that the
commit adds, and gone from it by a vector in the same commit; in the change feed it does not appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from weir.algebra.arrow_types import arrow_schema
from weir.warehouse.columns import CHANGE
from weir.warehouse.delta_log import FileChange
from weir.warehouse.index_runs import IndexRun, NumberArray, open_run, run_of
from weir.warehouse.place import OURS
from weir.warehouse.replaying import State
from weir.warehouse.row_index import RowIndex, as_numbers
from weir.warehouse.staging import CHANGES, INSERT, Staged, StagedPart, Stager
from weir.warehouse.statistics import DataFile
from weir.warehouse.taking import Taker, Taking
from weir.warehouse.vectors import DeletionVector, write_vectors

OWED = f"{OURS}/owed/"
MOST_AT_ONCE = 2  # parts of the feed that are written anew, each of them in memory


@dataclass(frozen=True)
class Prepared:
    """A change that is ready for its commit."""

    change: FileChange
    live: int
    owed: str
    runs: Sequence[IndexRun]  # of the files that are brought
    made: Sequence[str]  # files that only this commit names: to be discarded when it is not made
    unused: Sequence[str]  # waiting files that this commit does not name: to be discarded when it is made


@dataclass(frozen=True)
class _Wanted:
    """All rows to take: those of the parts, one part after the other, then those that are owed."""

    parts: Sequence[StagedPart]
    owed: pa.Table
    hashes: NumberArray
    ends: NumberArray  # where each part's rows end

    def of_part(self, number: int, values: NumberArray) -> NumberArray:
        begin = self.ends[number - 1] if number else 0
        return values[begin : self.ends[number]]


class Preparation:
    """Makes a delta ready to be committed after one state."""

    def __init__(self, stager: Stager, state: State, index: RowIndex, arrival: int) -> None:
        self._stager, self._place, self._state, self._index = stager, stager.place, state, index
        self._arrival = arrival  # that the batch ends with
        self._arrow = arrow_schema(stager.schema)
        self._made: list[str] = []

    def prepare(self, staged: Staged, owed: str, exact: bool) -> Prepared:
        """``owed``: the file with the rows that are owed so far."""
        runs = [self._run(part) for part in staged.parts if part.brought is not None]
        wanted = self._wanted(staged.parts, owed if runs else "")
        if not len(wanted.hashes):
            added = [part.brought for part in staged.parts if part.brought is not None]
            live = self._state.live + sum(file.rows for file in added)
            return Prepared(FileChange(added), live, owed, runs, [], [])
        taker = Taker(self._place, self._stager.schema, self._index, runs)
        taking = taker.take(wanted.hashes, lambda numbers: self._fetch(wanted, numbers), exact)
        return self._prepared(staged, owed, runs, wanted, taking)

    def _run(self, part: StagedPart) -> IndexRun:
        """The index entries of what a part brings."""
        assert part.brought is not None
        run = open_run(self._place, part.run, checked=False) if part.run else None
        if run is not None:
            return run
        hashes = part.brought_hashes
        return run_of({part.brought.name: self._stager.hashes_of(part.brought.name) if hashes is None else hashes})

    # -- what is to be taken -------------------------------------------------------------------------------------------

    def _wanted(self, parts: Sequence[StagedPart], owed: str) -> _Wanted:
        hashes = [self._taken_hashes(part) for part in parts]
        ends = np.cumsum([len(each) for each in hashes], dtype=np.int64)
        rows = self._place.read_parquet([owed] if owed else [], self._arrow)
        return _Wanted(parts, rows, np.concatenate([*hashes, self._stager.hashes(rows)]), ends)

    def _taken_hashes(self, part: StagedPart) -> NumberArray:
        if part.changes is None:
            return np.empty(0, np.int64)
        if part.taken_hashes is not None:
            return part.taken_hashes
        return self._stager.hashes_of(part.changes.name)[part.changes.rows - part.taken :]

    def _fetch(self, wanted: _Wanted, numbers: NumberArray) -> pa.Table:
        """The columns of some rows to take, whose numbers ascend."""
        owners = np.searchsorted(wanted.ends, numbers, "right")
        tables = []
        for number in np.unique(owners):
            mine = numbers[owners == number] - (wanted.ends[number - 1] if number else 0)
            owed = number == len(wanted.parts)
            tables.append(wanted.owed.take(pa.array(mine)) if owed else self._of(wanted.parts[number], mine))
        return pa.concat_tables([table.cast(self._arrow) for table in tables]) if tables else self._arrow.empty_table()

    def _of(self, part: StagedPart, rows: NumberArray) -> pa.Table:
        assert part.changes is not None
        return self._place.read_rows(part.changes.name, rows + part.changes.rows - part.taken, self._arrow)

    # -- what becomes of it --------------------------------------------------------------------------------------------

    def _prepared(
        self, staged: Staged, owed: str, runs: Sequence[IndexRun], wanted: _Wanted, taking: Taking
    ) -> Prepared:
        try:
            gone = taking.by_file()
            new = {part.brought.name for part in staged.parts if part.brought is not None}
            old = {name: rows for name, rows in gone.items() if name not in new}
            partly = self._rewritten(old)
            brought = self._brought(staged, {name: gone[name] for name in new & gone.keys()})
            cancelled = new & gone.keys()
            feed = self._feed(wanted, taking, gone, new) if old or cancelled else []
            removed = [self._state.files[name] for name in old]
            live = self._state.live - sum(map(len, old.values())) + sum(file.live for file in brought)
            missing = self._owe(wanted, taking, owed)
        except BaseException:
            self._place.discard(self._made)
            raise
        change = FileChange([*partly, *brought], removed, feed)
        named = {file.name for file in (*brought, *feed)} | set(staged.inside)
        unused = [name for part in staged.parts for name in part.names if name not in named and name != part.run]
        return Prepared(change, live, missing, runs, self._made, unused)

    def _rewritten(self, taken: dict[str, BitMap]) -> list[DataFile]:
        """The files of the table of which more rows are gone; not those that have no row left."""
        total = {name: rows | (self._index.gone(name) or BitMap()) for name, rows in taken.items()}
        left = {name: rows for name, rows in total.items() if len(rows) < self._state.files[name].rows}
        return [replace(self._state.files[name], vector=vector) for name, vector in self._vectors(left).items()]

    def _brought(self, staged: Staged, cancelled: dict[str, BitMap]) -> list[DataFile]:
        files = [part.brought for part in staged.parts if part.brought is not None]
        kept = [file for file in files if len(cancelled.get(file.name, ())) < file.rows]
        vectors = self._vectors({file.name: cancelled[file.name] for file in kept if file.name in cancelled})
        return [replace(file, vector=vectors.get(file.name)) for file in kept]

    def _vectors(self, rows: dict[str, BitMap]) -> dict[str, DeletionVector]:
        found = write_vectors(self._place, rows)
        self._made += {name for vector in found.values() if (name := vector.file) is not None}
        return found

    def _owe(self, wanted: _Wanted, taking: Taking, before: str) -> str:
        missing = np.flatnonzero(taking.file < 0)
        owed_before = np.arange(len(taking.file)) >= (wanted.ends[-1] if len(wanted.ends) else 0)
        if not len(missing):
            return "" if wanted.owed.num_rows else before
        if wanted.owed.num_rows and np.array_equal(np.flatnonzero(owed_before), missing):
            return before
        rows = self._fetch(wanted, missing)
        if before and not wanted.owed.num_rows:
            rows = pa.concat_tables([self._place.read_parquet([before], self._arrow), rows])
        return self._write(rows, OWED).name

    # -- the change feed -----------------------------------------------------------------------------------------------

    def _feed(self, wanted: _Wanted, taking: Taking, gone: dict[str, BitMap], new: set[str]) -> list[DataFile]:
        """The files of the feed: those of the parts, without what has cancelled and what is owed."""
        from_table = (taking.file >= 0) & ~taking.are_in(new)

        def of_part(number: int, part: StagedPart) -> DataFile | None:
            cancelled = gone.get(part.brought.name) if part.brought is not None else None
            return self._part_of_feed(part, wanted.of_part(number, from_table), cancelled)

        with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
            files = list(threads.map(of_part, range(len(wanted.parts)), wanted.parts))
        return [file for file in files if file is not None]

    def _part_of_feed(self, part: StagedPart, kept: NumberArray, cancelled: BitMap | None) -> DataFile | None:
        if part.changes is None and part.brought is None:
            return None  # only what came and went inside the batch
        if part.changes is not None and kept.all() and not cancelled:
            return part.changes
        rows = self._change_rows(part)
        mask = np.ones(rows.num_rows, np.bool_)
        mask[rows.num_rows - len(kept) :] = kept
        if cancelled:
            mask[as_numbers(cancelled)] = False
        left = rows.filter(pa.array(mask))
        return self._write(left, CHANGES) if left.num_rows else None

    def _change_rows(self, part: StagedPart) -> pa.Table:
        if part.changes is not None:
            return self._place.read_table(part.changes.name, [*self._stager.names, CHANGE])
        assert part.brought is not None
        rows = self._place.read_parquet([part.brought.name], self._arrow)
        return rows.append_column(CHANGE, pa.repeat(pa.scalar(INSERT), rows.num_rows))

    def _write(self, rows: pa.Table, folder: str) -> DataFile:
        file = self._stager.write_file(rows, folder, self._arrival)
        self._made.append(file.name)
        return file
