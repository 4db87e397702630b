"""Joining rows with a table as it was at each row's own moment, without looking at every change for every row.

What is given is a table of rows with a *validity*: a row counts, with its weight, at every moment before it. So a row
that was deleted at 7 and had been inserted at 3 stands there twice, with -1 up to 3 and +1 up to 7. Two steps:

1. **Spans.** Equal rows are brought together and their weights added up over time. What is left are spans, ``since <=
   moment < until``, in which the row counts with one weight: here +1 from 3 to 7. A row that changes a thousand times
   has a thousand spans that do not overlap, where before every moment met hundreds of changes that cancelled.
2. **Stabbing.** A moment must meet the spans around it. Where a key has many of both, a span is cut into pieces of the
   binary tree over all times, at most two per level, and a moment asks for its leaf and all nodes above that: exactly
   one of these is a piece of any span around it. So it is an equality again, over key and node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.spark.arrow_keys import Codes, Numbers, RowPairs, pairs, present

ALWAYS = np.iinfo(np.int64).min
_DIRECTLY = 4  # so many pairs per row are looked at one by one rather than through the tree


@dataclass(frozen=True)
class Spans:
    """Rows of a table (columns and weight), each with the time in which it counts."""

    rows: pa.Table
    since: Numbers
    until: Numbers


def spans(table: pa.Table, validity: str, weight: str) -> Spans:
    """The spans of a table's rows: equal ones brought together, those that never count left out."""
    names = [name for name in table.column_names if name not in (validity, weight)]
    numbered = table.select([*names, validity, weight]).rename_columns([str(at) for at in range(len(names) + 2)])
    # One constant column is always there, so that rows without columns are the ordinary case.
    constant = numbered.append_column("", pa.repeat(True, table.num_rows))
    columns, (ends, weights) = ["", *numbered.column_names[:-2]], numbered.column_names[-2:]
    groups = constant.group_by(columns).aggregate([(ends, "list"), (weights, "list")])
    group, until, own = _flat(groups)
    order = np.lexsort((until, group))
    group, until, own = group[order], until[order], own[order]
    first = np.append(True, group[1:] != group[:-1])[: len(group)]
    since = np.where(first, ALWAYS, np.roll(until, 1))
    counting = _sums_from_here(own, group)
    kept = np.flatnonzero((counting != 0) & (since < until))
    rows = groups.select([str(at) for at in range(len(names))]).rename_columns(names).take(pa.array(group[kept]))
    return Spans(rows.append_column(weight, pa.array(counting[kept])), since[kept], until[kept])


def _flat(groups: pa.Table) -> tuple[Numbers, Numbers, Numbers]:
    """Per row of the groups' two lists: the number of its group, and the two values."""
    until, weights = (column.combine_chunks() for column in groups.columns[-2:])
    sizes = until.value_lengths().to_numpy(zero_copy_only=False)
    group = np.repeat(np.arange(groups.num_rows), sizes)
    return group, until.flatten().to_numpy(), weights.flatten().to_numpy()


def _sums_from_here(values: Numbers, group: Numbers) -> Numbers:
    """For each row, the sum of its own value and those behind it in its group."""
    through = np.cumsum(values)
    last = np.searchsorted(group, group, side="right") - 1
    return through[last] - through + values


def meeting_at(keys: Codes, moments: Numbers, since: Numbers, until: Numbers) -> RowPairs:
    """Every pair of equal keys whose moment on the left lies in the span on the right."""
    mine, theirs = keys
    if not len(moments):
        return mine[:0], theirs[:0]
    throughout = (since <= moments.min()) & (until > moments.max())
    whole = pairs((mine, np.where(throughout, theirs, -1)))
    mine_in_part, theirs_in_part = _with_partners(mine, np.where(throughout, -1, theirs))
    if not len(mine_in_part):
        return whole
    keys = mine[mine_in_part], theirs[theirs_in_part]
    left, right = _stabbed(keys, moments[mine_in_part], since[theirs_in_part], until[theirs_in_part])
    return np.append(whole[0], mine_in_part[left]), np.append(whole[1], theirs_in_part[right])


def _with_partners(mine: Numbers, theirs: Numbers) -> RowPairs:
    """The rows on either side whose key the other has."""
    return np.flatnonzero(present(mine, theirs)), np.flatnonzero(present(theirs, mine))


def _stabbed(keys: Codes, moments: Numbers, since: Numbers, until: Numbers) -> RowPairs:
    mine, theirs = keys
    many = np.bincount(theirs, minlength=int(mine.max()) + 1)[mine].sum()
    if many <= _DIRECTLY * (len(mine) + len(theirs)):
        left, right = pairs(keys)
        around = (since[right] <= moments[left]) & (moments[left] < until[right])
        return left[around], right[around]
    times = np.unique(np.append(since, until))
    leaves = 1 << len(times).bit_length()
    asking, asked = _above(np.searchsorted(times, moments, side="right") - 1, leaves)
    pieces, nodes = _cut(np.searchsorted(times, since), np.searchsorted(times, until), leaves)
    left, right = pairs(_joint(mine[asking], asked, theirs[pieces], nodes))
    return asking[left], pieces[right]


def _above(places: Numbers, leaves: int) -> RowPairs:
    """Every row with its leaf of the tree and with each node above it; a row before all times (place -1) has none."""
    rows = np.flatnonzero(places >= 0)
    levels = [places[rows] + leaves >> level for level in range(leaves.bit_length())]
    return np.tile(rows, len(levels)), np.concatenate(levels)


def _cut(low: Numbers, high: Numbers, leaves: int) -> RowPairs:
    """Every span from one leaf up to, not including, another as nodes of the tree that cover just it."""
    cut = list(_cut_levels(low + leaves, high + leaves))
    return np.concatenate([rows for rows, _ in cut]), np.concatenate([nodes for _, nodes in cut])


def _cut_levels(low: Numbers, high: Numbers) -> Iterator[RowPairs]:
    rows = np.arange(len(low))
    while len(rows):
        odd = low & 1 == 1  # a right child at the lower end: its parent would cover too much
        yield rows[odd], low[odd]
        odd_end = high & 1 == 1
        yield rows[odd_end], high[odd_end] - 1
        low, high = low + 1 >> 1, high >> 1
        left = low < high
        rows, low, high = rows[left], low[left], high[left]


def _joint(mine: Numbers, asked: Numbers, theirs: Numbers, nodes: Numbers) -> Codes:
    """Key and node as one code, numbered without gaps."""
    width = 1 + int(max(asked.max(initial=0), nodes.max(initial=0)))
    both = np.append(mine * width + asked, theirs * width + nodes)
    _, joint = np.unique(both, return_inverse=True)
    return joint[: len(mine)], joint[len(mine) :]
