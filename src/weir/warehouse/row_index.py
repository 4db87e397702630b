"""The row index: from a row's hash to the places that hold such a row, in the newest version of one table.

It is a cache and never the truth. Every data file of the version is covered by one run (``index_runs.py``), large ones
by runs in files, the rest by runs in memory; whatever is not covered, because its run is missing or damaged or was
never written, or because another tool has rewritten the table, is read and hashed. So the index follows the table, and
not the other way round. Places are not taken out of it: which rows are gone, the table's deletion vectors say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import BitMap

from weir.warehouse.index_runs import INDEX, LARGE, IndexRun, NumberArray, merged, open_run, run_of, store_run
from weir.warehouse.replaying import State
from weir.warehouse.staging import Stager
from weir.warehouse.vectors import DeletionVector, read_vector

MOST_IN_MEMORY = 1_000_000  # entries; more go to a run in a file
MOST_RUNS = 8  # of either kind; more are merged


class RowIndex:
    """Of one table; brought up to a version before it is asked."""

    def __init__(self, stager: Stager) -> None:
        self._place, self._stager = stager.place, stager
        self._state = State(-1, {})
        self._runs: list[IndexRun] = []  # newest first
        self._gone: dict[str, tuple[DeletionVector, BitMap]] = {}
        self._looked = False

    # -- following the table -------------------------------------------------------------------------------------------

    def follow(self, state: State) -> None:
        """Covers the files of this version, and forgets others."""
        if state is self._state:
            return
        self._state = state
        self._runs = [run for run in self._runs if any(name in state.files for name in run.names)]
        missing = self._uncovered()
        if missing and (not self._looked or any(state.files[name].rows >= LARGE for name in missing)):
            self._open_runs(missing)
            missing = self._uncovered()
        if missing:
            self._build(sorted(missing))
        self._gone = {name: kept for name, kept in self._gone.items() if name in state.files}

    def _uncovered(self) -> set[str]:
        return set(self._state.files).difference(*(run.names for run in self._runs))

    def _open_runs(self, missing: set[str]) -> None:
        """From the files; a damaged one is removed, and what it covered is made again."""
        self._looked = True
        known = {run.stored for run in self._runs}
        for name in sorted(set(self._place.listing(INDEX)) - known):
            run = open_run(self._place, name)
            if run is None:
                self._place.discard([name])
            elif missing.intersection(run.names):
                self._runs.append(run)
                missing = missing.difference(run.names)

    def _build(self, names: Sequence[str]) -> None:
        small: dict[str, NumberArray] = {}
        for name in names:
            hashes = self._stager.hashes_of(name)
            if len(hashes) >= LARGE:
                self._runs.append(store_run(self._place, run_of({name: hashes})))
            else:
                small[name] = hashes
        if small:
            self._add([run_of(small)])

    def adopt(self, runs: Sequence[IndexRun], state: State) -> None:
        """The next version, with the entries of the files that it has brought. Where this one had not been followed,
        neither is the next.
        """
        if self._state.version == state.version - 1:
            self._state = state
            self._add(runs)

    def _add(self, runs: Iterable[IndexRun]) -> None:
        self._runs = [*runs, *self._runs]
        loose = [run for run in self._runs if not run.stored]
        if len(loose) > MOST_RUNS:
            together = merged(loose, frozenset(self._state.files))
            kept = store_run(self._place, together) if len(together) > MOST_IN_MEMORY else together
            self._runs = [kept, *(run for run in self._runs if run.stored)]

    def tidy(self) -> bool:
        """Merges the runs that lie in files, when they are many. The old ones go when no version names their files."""
        stored = [run for run in self._runs if run.stored]
        if len(stored) <= MOST_RUNS:
            return False
        together = store_run(self._place, merged(stored, frozenset(self._state.files)))
        self._runs = [*(run for run in self._runs if not run.stored), together]
        self._place.discard(run.stored for run in stored)
        return True

    # -- asking --------------------------------------------------------------------------------------------------------

    def search(self, hashes: NumberArray, new: Sequence[IndexRun]) -> Search:
        """For these hashes, each once, in the table and first in files that are about to be in it."""
        owned = [np.ones(len(run.names), np.bool_) for run in new]
        claimed = set[str]()
        for run in self._runs:
            owned.append(np.array([name in self._state.files and name not in claimed for name in run.names], np.bool_))
            claimed.update(run.names)
        return Search(self, [*new, *self._runs], owned, hashes)

    def gone(self, name: str) -> BitMap | None:
        """The rows of a file that are no longer visible; None: all are."""
        file = self._state.files.get(name)
        if file is None or file.vector is None:
            return None
        known = self._gone.get(name)
        if known is None or known[0] != file.vector:
            known = self._gone[name] = file.vector, read_vector(self._place, file.vector)
        return known[1]


@dataclass(frozen=True)
class Entries:
    """Places of visible rows: ``asked`` is the number of the hash asked for, ``file`` a number into ``names``."""

    asked: NumberArray
    file: NumberArray
    row: NumberArray
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.asked)

    def only(self, kept: NumberArray) -> Entries:
        return Entries(self.asked[kept], self.file[kept], self.row[kept], self.names)


class Search:
    """The entries of some hashes, some at a time: a hash that many rows share is seldom needed whole."""

    def __init__(
        self, index: RowIndex, runs: Sequence[IndexRun], owned: Sequence[NumberArray], hashes: NumberArray
    ) -> None:
        self._index, self._runs, self._owned = index, runs, owned
        spans = [_spans(run.hash, hashes) for run in runs]
        self._low = [low for low, _ in spans]
        zero = np.zeros((1, len(hashes)), np.int64)
        self._ends = np.cumsum(np.concatenate([zero, *(length[None] for _, length in spans)]), axis=0)
        self._done = np.zeros(len(hashes), np.int64)
        self._names = [name for run in runs for name in run.names]
        self._first = np.cumsum([0, *(len(run.names) for run in runs)])

    def is_done(self) -> NumberArray:
        """Of which hashes all entries have been given."""
        done: NumberArray = self._done >= self._ends[-1]
        return done

    def more(self, asked: NumberArray, most: NumberArray) -> Entries:
        """The next entries of the hashes with these numbers, so many of each at most, of rows that are visible."""
        begin, end = self._done[asked], np.minimum(self._done[asked] + most, self._ends[-1, asked])
        self._done[asked] = end
        parts = [self._of_run(number, asked, begin, end) for number in range(len(self._runs))]
        if not parts:
            nothing = np.empty(0, np.int64)
            return Entries(nothing, nothing, nothing, self._names)
        which, files, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._visible(Entries(which, files, rows, self._names))

    def _of_run(self, number: int, asked: NumberArray, begin: NumberArray, end: NumberArray) -> tuple[NumberArray, ...]:
        run, before = self._runs[number], self._ends[number, asked]
        first = np.maximum(begin, before)
        count = np.maximum(np.minimum(end, self._ends[number + 1, asked]) - first, 0)
        starts = self._low[number][asked] + first - before
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(starts, count) + within
        files = run.file[places].astype(np.int64)
        kept = self._owned[number][files] if len(run.names) else np.ones(0, np.bool_)
        return np.repeat(asked, count)[kept], files[kept] + self._first[number], run.row[places][kept].astype(np.int64)

    def _visible(self, entries: Entries) -> Entries:
        kept = np.ones(len(entries), np.bool_)
        for number in np.unique(entries.file):
            gone = self._index.gone(entries.names[number])
            if gone:
                mine = np.flatnonzero(entries.file == number)
                kept[mine] = ~contained(entries.row[mine], gone)
        return entries.only(kept)


def _spans(sorted_: NumberArray, wanted: NumberArray) -> tuple[NumberArray, NumberArray]:
    """Where each value begins, and how often it is there: most are not, and only the others' ends are looked for."""
    low = np.searchsorted(sorted_, wanted, "left")
    there = np.flatnonzero(low < len(sorted_))
    there = there[sorted_[low[there]] == wanted[there]]
    lengths = np.zeros(len(wanted), np.int64)
    lengths[there] = np.searchsorted(sorted_, wanted[there], "right") - low[there]
    return low, lengths


def contained(rows: NumberArray, gone: BitMap) -> NumberArray:
    """Which of these rows are in a set."""
    return np.isin(rows, np.asarray((BitMap(rows.astype(np.uint32)) & gone).to_array(), dtype=np.int64))


def as_numbers(rows: BitMap) -> Any:
    return np.asarray(rows.to_array(), dtype=np.int64)
