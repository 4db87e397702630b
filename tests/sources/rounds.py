"""What every kind of source must do in a round: hold its snapshot, and deliver again for views that are behind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.oracle import Replay, rows_of
from weir.sources import plain
from weir.sources.source import (
    TRANSACTION,
    WEIGHT,
    HeldSnapshot,
    Partition,
    Source,
    SourceError,
    SourcePosition,
    Transaction,
    Visit,
)

Columns = Mapping[Relation, Sequence[str]]
Content = dict[Relation, Counter[tuple[Any, ...]]]
T = TypeVar("T")


def whole(columns: Columns) -> list[Lookup]:
    return [Lookup(relation, tuple(names)) for relation, names in columns.items()]


def held_by(visit: Visit) -> HeldSnapshot:
    assert visit.held is not None
    return visit.held


def loaded_position(source: Source) -> SourcePosition:
    """Of a first load whose rows do not matter."""
    load = source.load()
    load.held.release()
    return load.position


def elsewhere(act: Callable[[], T]) -> T:
    """In another thread, to its end."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


# -- held snapshots --------------------------------------------------------------------------------------------------


def check_held(
    source: Source, replay: Replay, write: Callable[[], object], lookups: Sequence[Lookup] = ()
) -> tuple[Visit, Visit]:
    """A held snapshot is a thing of its own: beside others, and beyond its source's life.

    Returns two visits with a ``write`` between them. The source follows afterwards, from where the replay is.
    """
    visits = check_beside_others(source, replay, write, lookups)
    check_outlives(source, replay, write)
    return visits


def check_beside_others(
    source: Source, replay: Replay, write: Callable[[], object], lookups: Sequence[Lookup] = ()
) -> tuple[Visit, Visit]:
    """Every held snapshot shows what was delivered up to its own visit, and goes on to while others write and the
    source visits on, until it is released, by whichever thread; the others stay.
    """
    first = source.visit(hold=True)
    assert replay.apply(first) == []
    then, older = replay.as_it_is(), held_by(first)
    assert_shows(older, then, lookups)
    write()
    assert_shows(older, then, lookups)
    second = source.visit(hold=True)
    assert replay.apply(second) == []
    now, younger = replay.as_it_is(), held_by(second)
    write()
    assert replay.apply(source.visit()) == []
    for held, shown in ((older, then), (younger, now), (older, then)):
        assert_shows(held, shown, lookups)
        elsewhere(lambda: assert_shows(held, shown, lookups))  # noqa: B023
    elsewhere(older.release)
    assert_released(older)
    assert_shows(younger, now, lookups)
    younger.release()
    assert_released(younger)
    assert replay.apply(source.visit()) == []
    return first, second


def check_outlives(source: Source, replay: Replay, write: Callable[[], object]) -> None:
    """A held snapshot stays whatever its source does: begins anew in every way, or ends. So does a load's."""
    visit = source.visit(hold=True)
    assert replay.apply(visit) == []
    held, then = held_by(visit), replay.as_it_is()
    source.resume(visit.position)
    assert_shows(held, then)
    source.watch(replay.columns)
    assert_shows(held, then)
    write()
    load = source.load()
    loaded = content_of(load.held)
    write()
    source.resume(visit.position)
    source.visit()
    source.close()
    assert_shows(held, then)
    assert content_of(load.held) == loaded
    source.watch(replay.columns)
    source.resume(visit.position)
    held.release()
    assert_released(held)
    assert replay.apply(source.visit()) == []
    elsewhere(load.held.release)
    assert_released(load.held)


def assert_shows(held: HeldSnapshot, replay: Replay, lookups: Sequence[Lookup] = ()) -> None:
    """Lookups and whole tables are what was delivered."""
    questions = [*lookups, *whole(replay.columns)]
    assert replay.compare(held.look(questions), questions) == []
    assert content_of(held) == nonempty(replay.tables)
    assert plain_content_of(held) == nonempty(replay.tables)


def assert_released(held: HeldSnapshot) -> None:
    """It refuses every question, and to release it once more is nothing."""
    held.release()
    elsewhere(held.release)
    part = Partition(Relation(held.source, "t"), ())
    questions: list[Callable[[], object]] = [lambda: held.look([]), held.parts, held.whole_tables]
    questions += [lambda: next(held.read(part)), lambda: next(held.read_plainly(part))]
    for ask in questions:
        with pytest.raises(SourceError, match=f"source '{held.source}': this snapshot was released"):
            ask()


def check_lost(source: Source, replay: Replay, cut: Callable[[HeldSnapshot], object], words: str) -> None:
    """A held snapshot that is cut off says so, however often it is asked; another one stays, and visits go on."""
    first, second = source.visit(hold=True), source.visit(hold=True)
    assert [*replay.apply(first), *replay.apply(second)] == []
    lost, other = held_by(first), held_by(second)
    cut(lost)
    for _ in range(2):
        with pytest.raises(SourceError, match=words):
            lost.look(whole(replay.columns))
        with pytest.raises(SourceError, match=words):
            lost.parts()
    assert_shows(other, replay)
    visit = source.visit(hold=True)
    assert replay.apply(visit) == []
    assert_shows(held_by(visit), replay)
    for held in (lost, other, held_by(visit)):
        held.release()
        assert_released(held)


def check_connections(
    source: Source, write: Callable[[], object], connections: Callable[[], set[Any]], most: int, idle: int
) -> None:
    """Rounds with two snapshots at a time need the same few connections over and over (``most``); of a crowd only some
    stay (``idle``), and in the end none.
    """
    seen: set[Any] = set()
    for _ in range(8):
        write()
        held = [held_by(source.visit(hold=True)) for _ in range(2)]
        for one in held:
            content_of(one)
        seen |= connections()
        for one in held:
            elsewhere(one.release)
    assert len(seen) <= most, seen
    for _ in range(3):
        crowd = [held_by(source.visit(hold=True)) for _ in range(12)]
        for one in crowd:
            content_of(one)
            one.release()
        assert len(connections()) <= idle, connections()
    source.visit()
    last = held_by(source.visit(hold=True))
    source.close()
    content_of(last)
    assert connections()
    last.release()
    assert_none_left(connections)


def assert_none_left(connections: Callable[[], set[Any]]) -> None:
    """A server needs a moment to notice that one is gone."""
    until = time.monotonic() + 300
    while left := connections():
        assert time.monotonic() < until, left
        time.sleep(0.02)


def content_of(held: HeldSnapshot) -> Content:
    """The watched tables as the held snapshot's parts have them."""
    found: Content = {}
    for part in held.parts():
        for batch in held.read(part):
            found.setdefault(part.relation, Counter()).update(rows_of(pa.Table.from_batches([batch]), part.columns))
    return nonempty(found)


def plain_content_of(held: HeldSnapshot) -> Content:
    """The same as the plain driver reads them, row by row, also after a reading that was given up."""
    found: Content = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "ROWS_IN_BATCH", 1)
        for table in held.whole_tables():
            given_up = held.read_plainly(table)
            next(given_up, None)
            del given_up
            for batch in held.read_plainly(table):
                assert batch.num_rows == 1
                rows = rows_of(pa.Table.from_batches([batch]), table.columns)
                found.setdefault(table.relation, Counter()).update(rows)
    return nonempty(found)


def nonempty(tables: Mapping[Relation, Counter[tuple[Any, ...]]]) -> Content:
    return {relation: rows for relation, rows in tables.items() if rows}


# -- views that are behind -------------------------------------------------------------------------------------------


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
    seen = content_of(held_by(visit)).get(new, Counter())
    assert seen
    held_by(visit).release()
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
    held = held_by(source.visit(hold=True))
    assert _nonzero(seen) == content_of(held)[new]
    held.release()
    source.close()
