"""Which rows of the table a delta takes away.

A row is looked for by its hash. That the hash is the same does not make two rows the same: so the columns are compared,
except where nothing can be mixed up: where it is known that the rows to take are there (``exact``: the writer's level
says so), and there are just as many places with the hash as rows to take, all of them go.

Rows that are not there are *owed*: a level below ``strong`` may take a row before it is brought. They are looked for
again at every commit that brings something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.spark.arrow_keys import codes
from weir.warehouse.index_runs import IndexRun, NumberArray
from weir.warehouse.place import Place
from weir.warehouse.row_index import Entries, RowIndex

_SPARE = 16  # entries that are looked at beyond those that are needed
_GROWTH = 8  # times as many as before, when these were not enough
RowsToTake = Callable[[NumberArray], pa.Table]


@dataclass
class Taking:
    """For each row to take the place where it was found: a number into ``names`` (-1: nowhere), and the row there."""

    names: Sequence[str]
    file: NumberArray
    row: NumberArray

    def by_file(self) -> dict[str, BitMap]:
        found = self.file >= 0
        return {
            self.names[number]: BitMap(self.row[found & (self.file == number)].astype(np.uint32))
            for number in np.unique(self.file[found])
        }

    def are_in(self, names: set[str]) -> NumberArray:
        """Which of the rows to take were found in one of these files."""
        numbers = [number for number in np.unique(self.file) if number >= 0 and self.names[number] in names]
        return np.isin(self.file, numbers)


class Taker:
    """Finds the places of rows to take, given by their hashes and, where these do not tell, by their columns."""

    def __init__(self, place: Place, schema: Schema, index: RowIndex, new: Sequence[IndexRun]) -> None:
        self._place, self._schema, self._index, self._new = place, schema, index, new

    def take(self, hashes: NumberArray, fetch: RowsToTake, exact: bool) -> Taking:
        """``fetch`` has the columns of some of the rows to take."""
        different, belongs, needed = np.unique(hashes, return_inverse=True, return_counts=True)
        search = self._index.search(different, self._new)
        everything = np.arange(len(different))
        found = search.more(everything, needed + _SPARE)
        taking = Taking(found.names, np.full(len(hashes), -1), np.zeros(len(hashes), np.int64))
        plain = self._plain(found, needed, search.is_done()) if exact else np.zeros(len(different), np.bool_)
        _assign_all(taking, belongs, found, plain)
        open_, most = ~plain, _SPARE * _GROWTH
        while open_.any():
            mine = np.flatnonzero(open_[belongs] & (taking.file < 0))
            self._compare(taking, mine, fetch(mine), found.only(open_[found.asked]))
            unmet = np.zeros(len(different), np.bool_)
            unmet[belongs[mine[taking.file[mine] < 0]]] = True
            open_ = unmet & ~search.is_done()
            asked = np.flatnonzero(open_)
            found, most = search.more(asked, np.full(len(asked), most)), most * _GROWTH
        return taking

    def _plain(self, found: Entries, needed: NumberArray, done: NumberArray) -> NumberArray:
        """The hashes of which every place goes. A place that is only being brought may cancel one row and not another:
        there the rows must be told apart, unless there is only one.
        """
        counts = np.bincount(found.asked, minlength=len(needed))
        beginning = {name for run in self._new for name in run.names}
        fresh = np.isin(found.file, [number for number, name in enumerate(found.names) if name in beginning])
        mixed = np.bincount(found.asked[fresh], minlength=len(needed)) > 0
        plain: NumberArray = done & (counts == needed) & (~mixed | (needed == 1))
        return plain

    def _compare(self, taking: Taking, mine: NumberArray, rows: pa.Table, found: Entries) -> None:
        """Gives every row to take a place with an equal row, as long as there are some."""
        if not len(found):
            return
        order = np.lexsort((found.row, found.file))
        found = found.only(order)
        there = self._fetched(found)
        sides = [[(side.column(column.name), column.type) for column in self._schema] for side in (rows, there)]
        wanted, offered = codes(sides[0], sides[1], (rows.num_rows, there.num_rows), nulls_match=True)
        asking, giving = _paired(wanted, offered)
        taking.file[mine[asking]], taking.row[mine[asking]] = found.file[giving], found.row[giving]

    def _fetched(self, found: Entries) -> pa.Table:
        """The rows at these places, which are in the order of files and rows."""
        schema = arrow_schema(self._schema)
        parts = [
            self._place.read_rows(found.names[number], found.row[found.file == number], schema)
            for number in np.unique(found.file)
        ]
        return pa.concat_tables(parts)


def _assign_all(taking: Taking, belongs: NumberArray, found: Entries, plain: NumberArray) -> None:
    """Every place of these hashes to one of the rows that have it: there are as many of both."""
    rows = np.flatnonzero(plain[belongs])
    rows = rows[np.argsort(belongs[rows], kind="stable")]
    places = found.only(plain[found.asked])
    places = places.only(np.argsort(places.asked, kind="stable"))
    taking.file[rows], taking.row[rows] = places.file, places.row


def _paired(wanted: NumberArray, offered: NumberArray) -> tuple[Any, Any]:
    """Equal codes of both sides, one by one."""
    ranks = _rank(wanted), _rank(offered)
    width = 1 + max(int(rank.max(initial=0)) for rank in ranks)
    mine, theirs = wanted * width + ranks[0], offered * width + ranks[1]
    _, asking, giving = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return asking, giving


def _rank(values: NumberArray) -> NumberArray:
    """The how-manieth of its kind each is."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.searchsorted(ordered, ordered, "left")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values)) - first
    return ranks
