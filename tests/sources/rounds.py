"""What every kind of source must do in a round: hold its snapshot, and deliver again for views that are behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.oracle import Replay, rows_of
from weir.sources import plain
from weir.sources.source import TRANSACTION, WEIGHT, Source, SourceError, SourcePosition, Transaction, Visit

Columns = Mapping[Relation, Sequence[str]]
Content = dict[Relation, Counter[tuple[Any, ...]]]


def whole(columns: Columns) -> list[Lookup]:
    return [Lookup(relation, tuple(names)) for relation, names in columns.items()]


def check_held(source: Source, replay: Replay, write: Callable[[], object], lookups: Sequence[Lookup] = ()) -> Visit:
    """A held snapshot shows what was delivered up to its visit, and goes on to while others write, until released."""
    questions = [*lookups, *whole(replay.columns)]
    visit = source.visit(hold=True)
    assert replay.apply(visit) == []
    assert replay.compare(source.look(questions), questions) == []
    write()
    assert replay.compare(source.look(questions), questions) == []
    assert content_of(source) == nonempty(replay.tables)
    assert plain_content_of(source) == nonempty(replay.tables)
    assert replay.compare(source.look(questions), questions) == []
    with pytest.raises(SourceError, match="already held"):
        source.visit()
    source.release()
    source.release()
    with pytest.raises(SourceError, match="no snapshot is held"):
        source.look(questions)
    with pytest.raises(SourceError, match="no snapshot is held"):
        source.parts()
    with pytest.raises(SourceError, match="no snapshot is held"):
        source.whole_tables()
    return visit


def content_of(source: Source) -> Content:
    """The watched tables as the held snapshot's parts have them."""
    found: Content = {}
    for part in source.parts():
        for batch in source.read(part):
            found.setdefault(part.relation, Counter()).update(rows_of(pa.Table.from_batches([batch]), part.columns))
    return nonempty(found)


def plain_content_of(source: Source) -> Content:
    """The same as the plain driver reads them, row by row, also after a reading that was given up."""
    found: Content = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "ROWS_IN_BATCH", 1)
        for table in source.whole_tables():
            given_up = source.read_plainly(table)
            next(given_up, None)
            del given_up
            for batch in source.read_plainly(table):
                assert batch.num_rows == 1
                rows = rows_of(pa.Table.from_batches([batch]), table.columns)
                found.setdefault(table.relation, Counter()).update(rows)
    return nonempty(found)


def nonempty(tables: Mapping[Relation, Counter[tuple[Any, ...]]]) -> Content:
    return {relation: rows for relation, rows in tables.items() if rows}


Effect = tuple[Any, ...]  # a transaction's global one, its truncated tables, its changes by table


def deliver(source: Source, visits: int = 2) -> list[tuple[Transaction, Effect]]:
    """What some visits deliver, transaction by transaction."""
    delivered = []
    for _ in range(visits):
        visit = source.visit()
        delivered += [(transaction, _effect(visit, at)) for at, transaction in enumerate(visit.transactions)]
    return delivered


def _effect(visit: Visit, number: int) -> Effect:
    changes: dict[Relation, Counter[tuple[Any, ...]]] = {}
    for relation, table in visit.changes.items():
        names = [name for name in table.column_names if name not in (WEIGHT, TRANSACTION)]
        for *row, weight, at in rows_of(table, [*names, WEIGHT, TRANSACTION]):
            if at == number:
                changes.setdefault(relation, Counter())[tuple(row)] += weight
    truncated = {relation for relation, numbers in visit.truncations.items() if number in numbers}
    return visit.transactions[number].part_of, truncated, changes


def check_redelivery(
    reopen: Callable[[], Source],
    first: SourcePosition,
    second: SourcePosition,
    between: Mapping[Relation, Counter[Any]],
    visits: int = 2,
) -> list[tuple[Transaction, Effect]]:
    """Two views at two positions: what is delivered from the older is, without what the younger holds, exactly what
    is delivered from the younger; and what the younger holds is exactly what happened between the two.
    """
    source = reopen()
    assert source.order(first) < source.order(second)
    source.resume(first, [second])
    again = deliver(source, visits)
    source.close()
    behind = [one for one in again if source.holds(second, one[0])]
    assert not any(source.holds(first, transaction) for transaction, _ in again)
    assert net(behind) == between
    source = reopen()
    source.resume(second)
    ahead = [one for one in again if one not in behind]
    assert [effect for _, effect in ahead] == [effect for _, effect in deliver(source, visits)]
    source.close()
    return again


def net(delivered: Sequence[tuple[Transaction, Effect]]) -> Content:
    """The sum of changes, without truncations."""
    total: Content = {}
    for _, (_, truncated, changes) in delivered:
        assert not truncated
        for relation, rows in changes.items():
            for row, weight in rows.items():
                total.setdefault(relation, Counter())[row] += weight
    return {relation: rows for relation, counts in total.items() if (rows := Counter(_nonzero(counts)))}


def _nonzero(counts: Counter[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    return {row: count for row, count in counts.items() if count}


def check_begins_with_next_visit(
    reopen: Callable[[], Source], old: SourcePosition, new: Relation, write: Callable[[], object]
) -> None:
    """A table that the position does not cover: nothing of it is delivered with the next visit, whose snapshot has it;
    from there on all is, also after a restart and while that visit's position is behind others.
    """
    source = reopen()
    source.resume(old)
    write()
    visit = source.visit(hold=True)
    assert new not in visit.changes
    seen = content_of(source).get(new, Counter())
    assert seen
    source.release()
    write()
    first = source.visit()
    assert new in first.changes
    write()
    source.close()
    source = reopen()
    source.resume(visit.position, [first.position])
    delivered = deliver(source)
    for _, (_, _, changes) in delivered:
        for row, weight in changes.get(new, Counter()).items():
            seen[row] += weight
    source.visit(hold=True)
    assert _nonzero(seen) == content_of(source)[new]
    source.close()
