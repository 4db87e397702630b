"""The life of a source: its table, state by state and event by event; and the same walk for every kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sources.connections import open_connections, open_files
from tests.sources.files.producer import put
from tests.sources.rounds import assert_shows, content_of, held_by
from weir.algebra.catalog import Relation
from weir.proving.oracle import Replay
from weir.proving.stress import COLUMNS, find_workload
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.life import (
    BROKEN,
    FAIL,
    FOLLOWING,
    LOAD,
    OPEN,
    RESUME,
    TRANSITIONS,
    VISIT,
    WATCH,
    SourceEvent,
    SourceLife,
    SourceState,
)
from weir.sources.source import HeldSnapshot, Load, SchemaChanged, Source, SourceError, Visit

BEGIN, WATCHING = "call load or resume before visit", "call watch first"
TABLE = """
           closed    open      following broken
watch      open      open      open      open
load       -watch    following following following
resume     -watch    following following following
visit      -begin    -begin    following -problem
fail       -watch    -fail     broken    -fail
close      closed    closed    closed    closed
"""
WORDS = {
    "-watch": WATCHING, "-begin": BEGIN, "-problem": "t has changed", "-fail": "cannot fail while it is",
}  # fmt: skip


def _rows() -> dict[str, dict[str, str]]:
    heading, *lines = [line.split() for line in TABLE.strip().splitlines()]
    return {name: dict(zip(heading, cells, strict=True)) for name, *cells in lines}


def _life(state: SourceState) -> SourceLife:
    """A life in that state, as it gets there."""
    life = SourceLife("shop")
    way = {OPEN: [WATCH], FOLLOWING: [WATCH, RESUME]}
    for event in way.get(FOLLOWING if state is BROKEN else state, []):
        life.move(event)
    if state is BROKEN:
        life.fail(SchemaChanged("t has changed"))
    assert life.state is state
    return life


@pytest.mark.parametrize(("state", "event"), itertools.product(SourceState, SourceEvent), ids=lambda one: one.value)
def test_every_event_in_every_state(state: SourceState, event: SourceEvent) -> None:
    """It leads where the table says, or is refused with words that name the source and say what to do first."""
    life, expected = _life(state), _rows()[event.value][state.value]
    if expected.startswith("-"):
        with pytest.raises(SourceError, match=WORDS[expected]) as refused:
            life.move(event)
        assert "source 'shop': " in str(refused.value) or expected == "-problem"
        assert life.state is state
    else:
        life.move(event)
        assert life.state is SourceState(expected)


def test_what_cleans_up_and_what_begins_anew_is_never_refused() -> None:
    """In no state is there nothing left to do: close always; watch, then load or resume."""
    for events in TRANSITIONS.values():
        assert {SourceEvent.CLOSE, SourceEvent.WATCH} <= set(events)
    assert {LOAD, RESUME} <= set(TRANSITIONS[OPEN])


@pytest.mark.parametrize(("event", "after"), [(VISIT, FOLLOWING), (LOAD, OPEN), (RESUME, OPEN)])
def test_what_fails_leads_to_a_known_state(event: SourceEvent, after: SourceState) -> None:
    """A visit has taken nothing; after a load or resume nobody knows what was delivered."""
    life = _life(FOLLOWING)
    with pytest.raises(KeyboardInterrupt), life.during(event):
        raise KeyboardInterrupt
    assert life.state is after


def test_a_source_that_breaks_during_a_visit_stays_broken() -> None:
    """Every visit gives the same reason, until it begins anew."""
    life, problem = _life(FOLLOWING), SchemaChanged("t has changed")
    with pytest.raises(SchemaChanged), life.during(VISIT):
        raise life.fail(problem)
    for _ in range(2):
        with pytest.raises(SchemaChanged) as again:
            life.check(VISIT)
        assert again.value is problem
    with life.during(RESUME):
        assert life.state is OPEN
    life.check(VISIT)
    with pytest.raises(SourceError, match="cannot fail"):
        _life(OPEN).move(FAIL)


# -- the same walk for every kind ------------------------------------------------------------------------------------


HALF_WAY = {  # what a visit calls when its snapshot is open
    "sqlite": "_ends", "postgres": "_log_after", "postgres-triggers": "_log_after", "mariadb": "_deliver",
    "files": "_check_loadable",
}  # fmt: skip
Columns = Mapping[Relation, Sequence[str]]


@dataclass(frozen=True)
class Lab:
    """A source of some kind, and how to change a watched table."""

    kind: str
    source: Source
    columns: Columns
    write: Callable[[], object]
    insert: Callable[[], object]  # waits for no snapshot, as a TRUNCATE among what is written would
    connections: Callable[[], set[Any]]


KINDS = [pytest.param(kind, marks=pytest.mark.spark) if kind == "files" else kind for kind in HALF_WAY]


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.param == "files":
        put(tmp_path, "things", "1", [(1, "a", 1.0)])
        lake = FilesSource(FilesOptions("lake", str(tmp_path)), request.getfixturevalue("spark"))
        columns = {Relation("lake", "things"): ("id",)}
        put_next, files = partial(put, tmp_path, "things", "2", []), partial(open_files, tmp_path)
        yield Lab("files", lake, columns, put_next, put_next, files)
        lake.close()
        return
    with find_workload(request.param) as workload:
        source = workload.open()
        watched = {Relation(source.name, table): names for table, names in COLUMNS.items()}
        writer, numbers = workload.writer(1, 1), itertools.count(1)
        connection = writer.connect()
        commit = partial(any, (writer.transaction(connection, number) for number in numbers))  # some are rolled back
        insert = partial(workload.database.execute, "INSERT INTO ledger (id, growth) VALUES (1, 0)")
        yield Lab(request.param, source, watched, commit, insert, partial(open_connections, workload.database))
        connection.close()
        source.close()


def refused(words: str) -> AbstractContextManager[object]:
    return pytest.raises(SourceError, match=words)


def assert_no_visit(source: Source, words: str) -> None:
    for hold in (False, True):
        with refused(words):
            source.visit(hold)


def test_the_way_through_a_life(lab: Lab) -> None:
    """What is refused and with which words, and that what begins anew never is; no held snapshot stands in the way of
    anything, or is ended by it.
    """
    source, columns = lab.source, lab.columns
    for begin in (source.load, lambda: source.resume("anything")):
        with refused(WATCHING):
            begin()
    assert_no_visit(source, BEGIN)
    source.watch(columns)
    assert_no_visit(source, BEGIN)
    load = source.load()
    assert source.visit().transactions == ()
    replay, position = _check_deliveries(lab, load)
    for held in (*_check_beginnings(source, columns, position), *_check_end(source, columns, position)):
        assert_shows(held, replay)
        held.release()
    load.held.release()


def _check_deliveries(lab: Lab, load: Load) -> tuple[Replay, str]:
    """What is written while the load is open is delivered, and is not in the load."""
    replay = Replay(lab.columns)
    replay.tables.update(content_of(load.held))
    before = replay.as_it_is()
    lab.insert()
    visit = lab.source.visit(hold=True)
    assert replay.apply(visit) == []
    assert len(visit.transactions) == 1
    assert_shows(load.held, before)
    assert_shows(held_by(visit), replay)
    held_by(visit).release()
    return replay, visit.position


def _check_beginnings(source: Source, columns: Columns, position: str) -> list[HeldSnapshot]:
    """A resume, a load and a watch leave a held snapshot alone."""
    kept = []
    ways: list[Callable[[], HeldSnapshot]] = [lambda: held_by(source.visit(hold=True)), lambda: source.load().held]
    for prepare in ways:
        kept.append(prepare())
        source.resume(position)
        source.visit()
        prepare().release()
        source.load().held.release()
        prepare().release()
        source.watch(columns)
        assert_no_visit(source, BEGIN)
        source.resume(position)
    return kept


def _check_end(source: Source, columns: Columns, position: str) -> list[HeldSnapshot]:
    kept = [held_by(source.visit(hold=True))]
    source.close()
    source.close()
    assert_no_visit(source, BEGIN)
    source.watch(columns)
    source.resume(position)
    return [*kept, held_by(source.visit(hold=True))]


@pytest.mark.parametrize("hold", [False, True])
def test_a_visit_that_fails_has_taken_nothing(lab: Lab, hold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays open; the next visit delivers what the failed one would have, and a failed resume is begun anew."""
    source = lab.source
    source.watch(lab.columns)
    load = source.load()
    load.held.release()
    lab.write()

    def fail(*_: object) -> None:
        raise RuntimeError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(source, HALF_WAY[lab.kind], fail)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="half-way"):
                source.visit(hold)
        before = len(lab.connections())
        for _ in range(4):
            with pytest.raises(RuntimeError, match="half-way"):
                source.visit(hold)
    assert len(lab.connections()) <= before
    assert_one(source.visit(hold))
    with pytest.raises(SourceError):
        source.resume("nonsense")
    assert_no_visit(source, BEGIN)
    source.resume(load.position)
    assert_one(source.visit(hold))


def assert_one(visit: Visit) -> None:
    assert len(visit.transactions) == 1
    if visit.held is not None:
        visit.held.release()
