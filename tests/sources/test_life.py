"""The life of a source: its table, state by state and event by event; and the same walk for every kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.sources.files.producer import put
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.stress import COLUMNS, find_workload
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.life import (
    BROKEN,
    FAIL,
    FOLLOWING,
    HELD,
    HOLD,
    LOAD,
    LOADING,
    OPEN,
    RESUME,
    TRANSITIONS,
    VISIT,
    WATCH,
    SourceEvent,
    SourceLife,
    SourceState,
)
from weir.sources.source import SchemaChanged, Source, SourceError

BEGIN, WATCHING = "call load or resume before visit", "call watch first"
HELD_NOT, UNREADABLE = "no snapshot is held; visit with hold first", "no load is open here and no snapshot held"
TABLE = """
           closed    open      loading   following held      broken
watch      open      open      open      open      open      open
load       -watch    loading   loading   loading   loading   loading
end_load   closed    open      following following held      broken
resume     -watch    following following following following following
visit      -begin    -begin    -end      following -release  -problem
hold       -begin    -begin    -end      held      -release  -problem
look       -hold     -hold     -hold     -hold     held      -hold
read       -read     -read     loading   -read     held      -read
release    closed    open      loading   following following broken
lose       closed    open      open      following following broken
fail       -watch    -fail     -fail     broken    -fail     -fail
close      closed    closed    closed    closed    closed    closed
"""
WORDS = {
    "-watch": WATCHING, "-begin": BEGIN, "-end": "a load is open; end it first", "-hold": HELD_NOT,
    "-release": "a snapshot is already held; release it first", "-read": UNREADABLE, "-problem": "t has changed",
    "-fail": "cannot fail while it is",
}  # fmt: skip


def _rows() -> dict[str, dict[str, str]]:
    heading, *lines = [line.split() for line in TABLE.strip().splitlines()]
    return {name: dict(zip(heading, cells, strict=True)) for name, *cells in lines}


def _life(state: SourceState) -> SourceLife:
    """A life in that state, as it gets there."""
    life = SourceLife("shop")
    way = {OPEN: [WATCH], LOADING: [WATCH, LOAD], FOLLOWING: [WATCH, RESUME], HELD: [WATCH, RESUME, HOLD]}
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
    """In no state is there nothing left to do: close, release and end_load always; watch, then load or resume."""
    for events in TRANSITIONS.values():
        assert {SourceEvent.CLOSE, SourceEvent.RELEASE, SourceEvent.END_LOAD, SourceEvent.WATCH} <= set(events)
    assert {LOAD, RESUME} <= set(TRANSITIONS[OPEN])


@pytest.mark.parametrize(("event", "after"), [(VISIT, FOLLOWING), (HOLD, FOLLOWING), (LOAD, OPEN), (RESUME, OPEN)])
def test_what_fails_leads_to_a_known_state(event: SourceEvent, after: SourceState) -> None:
    """A visit has taken nothing; after a load or resume nobody knows what was delivered."""
    life = _life(FOLLOWING)
    with pytest.raises(KeyboardInterrupt), life.during(event):
        raise KeyboardInterrupt
    assert life.state is after


def test_a_source_that_breaks_during_a_visit_stays_broken() -> None:
    """Every visit gives the same reason, until it begins anew."""
    life, problem = _life(FOLLOWING), SchemaChanged("t has changed")
    with pytest.raises(SchemaChanged), life.during(HOLD):
        raise life.fail(problem)
    for event in (VISIT, HOLD):
        with pytest.raises(SchemaChanged) as again:
            life.check(event)
        assert again.value is problem
    with life.during(RESUME):
        assert life.state is OPEN
    life.check(VISIT)
    with pytest.raises(SourceError, match="cannot fail"):
        _life(HELD).move(FAIL)


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


KINDS = [pytest.param(kind, marks=pytest.mark.spark) if kind == "files" else kind for kind in HALF_WAY]


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.param == "files":
        put(tmp_path, "things", "1", [(1, "a", 1.0)])
        lake = FilesSource(FilesOptions("lake", str(tmp_path)), request.getfixturevalue("spark"))
        yield Lab("files", lake, {Relation("lake", "things"): ("id",)}, lambda: put(tmp_path, "things", "2", []))
        lake.close()
        return
    with find_workload(request.param) as workload:
        source = workload.open()
        columns = {Relation(source.name, table): names for table, names in COLUMNS.items()}
        writer, numbers = workload.writer(1, 1), itertools.count(1)
        connection = writer.connect()
        commit = partial(any, (writer.transaction(connection, number) for number in numbers))  # some are rolled back
        yield Lab(request.param, source, columns, commit)
        connection.close()
        source.close()


def refused(words: str) -> AbstractContextManager[object]:
    return pytest.raises(SourceError, match=words)


def assert_nothing_held(source: Source) -> None:
    for ask in (lambda: source.look([]), source.parts):
        with refused("no snapshot is held; visit with hold first"):
            ask()


def assert_no_visit(source: Source, words: str) -> None:
    for hold in (False, True):
        with refused(words):
            source.visit(hold)


def test_the_way_through_a_life(lab: Lab) -> None:
    """What is refused and with which words, and that what cleans up and what begins anew never is."""
    source, columns = lab.source, lab.columns
    source.release()
    source.end_load()
    for begin in (source.load, lambda: source.resume("anything")):
        with refused(WATCHING):
            begin()
    assert_no_visit(source, BEGIN)
    source.watch(columns)
    assert_no_visit(source, BEGIN)
    assert_nothing_held(source)
    source.load()
    assert_no_visit(source, "a load is open; end it first")
    assert_nothing_held(source)
    source.end_load()
    source.end_load()
    position = source.visit().position
    source.visit(hold=True)
    assert_no_visit(source, "a snapshot is already held; release it first")
    assert len(source.look([Lookup(relation, tuple(names)) for relation, names in columns.items()])) == len(columns)
    assert {part.relation for part in source.parts() for _ in source.read(part)} <= set(columns)
    source.release()
    source.release()
    assert_nothing_held(source)
    _check_beginnings(source, columns, position)
    _check_end(source, columns, position)


def _check_beginnings(source: Source, columns: Columns, position: str) -> None:
    """A resume, a load and a watch let go of a held snapshot, and of an open load."""
    for prepare in (lambda: source.visit(hold=True), source.load):
        prepare()
        source.resume(position)
        assert_nothing_held(source)
        source.visit()
        prepare()
        source.load()
        assert_nothing_held(source)
        source.end_load()
        prepare()
        source.watch(columns)
        assert_no_visit(source, BEGIN)
        source.resume(position)


def _check_end(source: Source, columns: Columns, position: str) -> None:
    source.visit(hold=True)
    source.close()
    source.close()
    assert_nothing_held(source)
    assert_no_visit(source, BEGIN)
    source.release()
    source.watch(columns)
    source.resume(position)
    source.visit(hold=True)


@pytest.mark.parametrize("hold", [False, True])
def test_a_visit_that_fails_has_taken_nothing(lab: Lab, hold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays held; the next visit delivers what the failed one would have, and a failed resume is begun anew."""
    source = lab.source
    source.watch(lab.columns)
    position = source.load().position
    source.end_load()
    lab.write()

    def fail(*_: object) -> None:
        raise RuntimeError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(source, HALF_WAY[lab.kind], fail)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="half-way"):
                source.visit(hold)
    assert_nothing_held(source)
    assert len(source.visit(hold).transactions) == 1
    with pytest.raises(SourceError):
        source.resume("nonsense")
    assert_no_visit(source, BEGIN)
    source.resume(position)
    assert len(source.visit(hold).transactions) == 1
