"""The same rows in other files: small files are merged, rows that are gone are left behind. No reader sees a change.

This runs beside a writer. What the writer commits in between may take rows from the very files that are being
rewritten: it is known where every row has gone, so these rows are gone from the new files too, by a vector in the same
commit, and so is a file of which it has taken every row. Where another rewriting was faster, the files read are no
more, and there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from weir.algebra.arrow_types import arrow_schema
from weir.points import COMPACTING, reach
from weir.warehouse.care import FULL, Limits
from weir.warehouse.columns import telling
from weir.warehouse.committing import Committer
from weir.warehouse.delta_log import DeltaLog, FileChange, Outrun
from weir.warehouse.errors import StoreError
from weir.warehouse.index_runs import LARGE, NumberArray, run_of, store_run
from weir.warehouse.reading import visible_rows
from weir.warehouse.record import REWRITE
from weir.warehouse.replaying import State
from weir.warehouse.row_index import as_numbers
from weir.warehouse.staging import ROWS, Stager
from weir.warehouse.statistics import DataFile, describe_file
from weir.warehouse.vectors import read_vector, write_vectors

_BATCH = 100_000  # rows that are read at a time


@dataclass(frozen=True)
class _Origin:
    """Where the rows of a new file come from: one after the other, these rows of a file."""

    file: DataFile
    rows: NumberArray


@dataclass(frozen=True)
class _Written:
    """A new file, with the rows it was made of."""

    file: DataFile
    origins: Sequence[_Origin]
    run: str = ""


def care(table: Committer, limits: Limits) -> list[str]:
    """What has grown past its limit. What was done: "merge", "purge", "index", "checkpoint"."""
    done = []
    for name, chosen in (("merge", limits.to_merge), ("purge", limits.to_purge)):
        state = table.log.state()
        if (files := chosen(state)) and rewrite(table, state, files) is not None:
            done.append(name)
    if table.tidy():
        done.append("index")
    if table.log.is_checkpoint_due() and table.log.checkpoint():
        done.append("checkpoint")
    return done


def compact(table: Committer) -> int | None:
    """Every small file, if there are several, and every file of which rows are gone."""
    state = table.log.state()
    small = [file for file in state.files.values() if file.live < FULL]
    files = [file for file in state.files.values() if file.gone or (file in small and len(small) > 1)]
    return rewrite(table, state, files) if files else None


def rewrite(table: Committer, state: State, files: Sequence[DataFile]) -> int | None:
    """Some files of a state. The version; None: somebody else was faster. A commit that this process is about to make
    comes first: else it would have to find its rows once more.
    """
    reach(COMPACTING)
    log, written = table.log, list[_Written]()
    try:
        written.extend(_write(table.stager(), files, log.head().last_arrival))
        reach(COMPACTING)
        with table.turn:
            version = _exchange(log, state.version, files, written)
    except StoreError:
        _take_back(log, written)
        raise
    if version is None:
        _take_back(log, written)
    reach(COMPACTING)
    return version


def _take_back(log: DeltaLog, written: Sequence[_Written]) -> None:
    log.place.discard(name for each in written for name in (each.file.name, each.run) if name)


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(stager: Stager, files: Sequence[DataFile], arrival: int) -> Iterator[_Written]:
    """The visible rows, in as many files as they need."""
    full: list[_Origin] = []
    for file in files:
        rows = visible_rows(stager.place, file)
        if full and sum(len(origin.rows) for origin in full) + len(rows) > FULL:
            yield _write_one(stager, full, arrival)
            full = []
        if len(rows):
            full.append(_Origin(file, rows))
    if full:
        yield _write_one(stager, full, arrival)


def _write_one(stager: Stager, origins: Sequence[_Origin], arrival: int) -> _Written:
    place, name = stager.place, stager.place.new_name(ROWS)
    try:
        hashes = _copy(stager, origins, name, arrival)
        file = describe_file(place, name)
        run = store_run(place, run_of({name: hashes})).stored if len(hashes) >= LARGE else ""
    except StoreError:
        place.discard([name])
        raise
    return _Written(file, origins, run)


def _copy(stager: Stager, origins: Sequence[_Origin], name: str, arrival: int) -> NumberArray:
    """Writes the rows, and returns their hashes."""
    place, hashes = stager.place, []
    schema = telling(arrow_schema(stager.schema), arrival)
    writer = place.parquet_writer(name, schema)
    try:
        for table in _rows(stager, origins):
            place.writing(partial(writer.write_table, table.cast(schema)))
            hashes.append(stager.hashes(table))
    finally:
        place.writing(writer.close)
    return np.concatenate(hashes)


def _rows(stager: Stager, origins: Sequence[_Origin]) -> Iterator[pa.Table]:
    schema = arrow_schema(stager.schema)
    for origin in origins:
        before = 0
        for batch in stager.place.batches(origin.file.name, schema.names, _BATCH):
            first, last = np.searchsorted(origin.rows, [before, before + batch.num_rows])
            mine = origin.rows[first:last] - before
            before += batch.num_rows
            if len(mine):
                yield pa.Table.from_batches([batch]).select(schema.names).cast(schema).take(pa.array(mine))


# -- committing --------------------------------------------------------------------------------------------------------


def _exchange(log: DeltaLog, since: int, files: Sequence[DataFile], written: Sequence[_Written]) -> int | None:
    """``since``: the version at which the files were read."""
    while True:
        head = log.head()
        now = log.state(head.version)
        if any(file.name not in now.files for file in files) and _was_rewritten(log, since, head.version):
            return None
        added, vectors = _with_later_losses(log, now, written)
        removed = [now.files[file.name] for file in files if file.name in now.files]
        record = replace(head, kind=REWRITE, arrivals=None, steps=(), inside=(), anew=False)
        try:
            return log.commit(head.version, record, FileChange(added, removed, visible=False))
        except Outrun:
            log.place.discard(vectors)
        except StoreError:
            log.place.discard(vectors)
            raise


def _was_rewritten(log: DeltaLog, since: int, version: int) -> bool:
    """Whether files went because others have their rows now. Else they went because every row of them was taken."""
    return any((record := log.record(each)).kind == REWRITE or record.anew for each in range(since + 1, version + 1))


def _with_later_losses(log: DeltaLog, now: State, written: Sequence[_Written]) -> tuple[list[DataFile], list[str]]:
    """The new files without the rows that were taken since they were read; and the files with their vectors."""
    gone = {each.file.name: rows for each in written if (rows := _lost(log, now, each))}
    vectors = write_vectors(log.place, gone)
    left = [each.file for each in written if len(gone.get(each.file.name, ())) < each.file.rows]
    names = {name for vector in vectors.values() if (name := vector.file) is not None}
    return [replace(file, vector=vectors.get(file.name)) for file in left], sorted(names)


def _lost(log: DeltaLog, now: State, written: _Written) -> BitMap:
    """The rows of a new file that are gone meanwhile from where they come from."""
    lost, before = BitMap(), 0
    for origin in written.origins:
        file = now.files.get(origin.file.name)
        vector = file.vector if file is not None else None
        if file is None:
            lost |= BitMap(range(before, before + len(origin.rows)))
        elif vector is not None and vector != origin.file.vector:
            gone = np.isin(origin.rows, as_numbers(read_vector(log.place, vector)))
            lost |= BitMap((np.flatnonzero(gone) + before).astype(np.uint32))
        before += len(origin.rows)
    return lost
