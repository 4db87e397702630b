"""Dates and times in the format of MariaDB 5.3: tables from before 10.1, or made with mysql56_temporal_format = OFF."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.sources.mariadb.conftest import Place, changes, whole
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.oracle import ask, rows_of
from weir.sources.source import SchemaChanged, SourceError

EVERY = [f"{kind}{digits}" for kind in ("d", "s") for digits in range(7)]
MOMENTS = [
    datetime(2024, 5, 6, 7, 8, 9, 123456),
    datetime(1970, 1, 1, 0, 0, 1),
    datetime(2038, 1, 19, 3, 14, 7, 999999),
    datetime(1999, 12, 31, 23, 59, 59, 1),
]
FAR = [datetime(1, 1, 1), datetime(1001, 2, 3, 4, 5, 6, 7), datetime(9999, 12, 31, 23, 59, 59, 999999)]


@pytest.fixture
def old(place: Place) -> Iterator[Place]:
    """New tables get the old format; Weir's own later look at them finds the server back at the new one."""
    place.run("SET GLOBAL mysql56_temporal_format = OFF", "SET SESSION sql_mode = '', time_zone = '+00:00'")
    yield place
    place.run("SET GLOBAL mysql56_temporal_format = ON")


def make(old: Place, *more: str) -> None:
    """A table with old columns of every precision, a TIME of every precision between them."""
    columns = [
        declared
        for digits in range(7)
        for declared in (
            f"d{digits} DATETIME({digits})",
            f"t{digits} TIME({digits})",
            f"s{digits} TIMESTAMP({digits}) NULL",
        )
    ]
    old.run(f"CREATE TABLE t (k INT PRIMARY KEY, {', '.join([*columns, *more])}, z VARCHAR(9))")
    old.run("SET GLOBAL mysql56_temporal_format = ON")
    assert old.run("SHOW CREATE TABLE t")[0][1].count("mariadb-5.3") == 21


def insert(place: Place, key: int, moment: datetime | None, stamps: bool = True) -> None:
    names = [name for name in EVERY if stamps or name[0] == "d"]
    times = [f"t{digits}" for digits in range(7)]
    values = [key, *[moment] * len(names), *["-12:34:56.654321" if moment else None] * 7, "end"]
    marks = ", ".join(["%s"] * len(values))
    place.run(f"INSERT INTO t (k, {', '.join([*names, *times])}, z) VALUES ({marks})", values=values)


def expected(moment: datetime, name: str) -> datetime:
    """Cut to the column's digits; a TIMESTAMP is an instant."""
    unit = 10 ** (6 - int(name[1]))
    cut = moment.replace(microsecond=moment.microsecond // unit * unit)
    return cut if name[0] == "d" else cut.replace(tzinfo=UTC)


def test_every_precision_is_the_same_from_load_log_and_lookup(old: Place) -> None:
    """Load, change and lookup agree with what was written, at the ends of each range too."""
    make(old)
    source = old.source({"t": ("k", *EVERY, "z")})
    for key, moment in enumerate([*MOMENTS, *FAR]):
        insert(old, key, moment, stamps=moment in MOMENTS)
    insert(old, 99, None)
    visit, (answer,) = ask(source, [whole("t", "k", *EVERY, "z")])
    found = {k: row for _, _, k, *row in changes(visit, "t", "k", *EVERY, "z")}
    for key, moment in enumerate([*MOMENTS, *FAR]):
        names = EVERY if moment in MOMENTS else EVERY[:7]
        assert found[key] == [*(expected(moment, name) for name in names), *[None] * (14 - len(names)), "end"]
    assert found[99] == [None] * 14 + ["end"]
    assert {k: list(row) for k, *row in rows_of(answer, ("k", *EVERY, "z"))} == found
    load = old.source({"t": ("k", *EVERY, "z")}, load=False).load().held
    parts = [batch for part in load.parts() for batch in load.read(part)]
    load.release()
    assert {row["k"]: [row[name] for name in (*EVERY, "z")] for batch in parts for row in batch.to_pylist()} == found


def test_an_old_column_can_be_a_key(old: Place) -> None:
    """Rows are found by the moments that were delivered for them."""
    make(old)
    source = old.source({"t": ("k", *EVERY)})
    insert(old, 1, MOMENTS[0])
    insert(old, 2, MOMENTS[2])
    types = {"d": t.TIMESTAMP_NTZ, "s": t.TIMESTAMP}
    lookups = [
        Lookup(
            Relation("shop", "t"),
            ("k",),
            (name,),
            MemoryBag.of(t.Schema([t.Column(name, types[name[0]])]), [(expected(MOMENTS[0], name),)]),
        )
        for name in EVERY
    ]
    _, answers = ask(source, lookups)
    assert [list(rows_of(answer, ("k",))) for answer in answers] == [[(1,)]] * len(EVERY)


def test_views_that_do_not_use_them_go_on(old: Place) -> None:
    """Old columns that nobody needs are skipped at their true width, which the log does not tell."""
    make(old)
    source = old.source({"t": ("k", "z")})
    insert(old, 1, MOMENTS[0])
    old.run("UPDATE t SET z = 'new', d3 = NULL", "ALTER TABLE t ADD COLUMN added INT", "DELETE FROM t")
    visit, _ = ask(source, [])
    assert changes(visit, "t", "k", "z") == [(0, 1, 1, "end"), (1, -1, 1, "end"), (1, 1, 1, "new"), (2, -1, 1, "new")]


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_an_old_column_of_another_width_stops_the_source(old: Place, metadata: str) -> None:
    """The log shows all precisions alike: what drops or adds one cannot be followed, and nothing wrong is delivered."""
    old.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    make(old)
    first = old.source({"t": ("k", "z")})
    added = old.source({"t": ("k", "z")})
    old.run("SET GLOBAL mysql56_temporal_format = OFF")
    insert(old, 1, MOMENTS[0])
    old.run("ALTER TABLE t DROP d2, ADD d2 DATETIME(6) AFTER k", "SET GLOBAL mysql56_temporal_format = ON")
    insert(old, 2, MOMENTS[0])
    with pytest.raises(SchemaChanged, match=r"shop\.t"):
        first.visit()
    away = old.source({"t": ("k", "z")}, load=False)
    away.resume(old.position)
    with pytest.raises(SchemaChanged, match=r"shop\.t"):
        away.visit()
    with pytest.raises(SchemaChanged, match=r"shop\.t"):
        added.visit()
    old.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")


def test_an_old_column_that_is_added_is_noticed(old: Place) -> None:
    """A column of unknown width cannot be skipped."""
    make(old)
    source = old.source({"t": ("k",)})
    old.run("SET GLOBAL mysql56_temporal_format = OFF")
    old.run("ALTER TABLE t ADD COLUMN later DATETIME(3)", "INSERT INTO t (k, later) VALUES (1, NOW(3))")
    with pytest.raises(SchemaChanged, match=r"shop\.t has changed.*old format"):
        source.visit()


@pytest.mark.parametrize("name", ["d0", "d3", "s0", "s6"])
def test_zero_dates_in_the_old_format_are_refused(old: Place, name: str) -> None:
    """As in the new one: by table, column and value."""
    make(old)
    source = old.source({"t": ("k", name)})
    old.run(f"INSERT INTO t (k, {name}) VALUES (1, '0000-00-00 00:00:00')")
    with pytest.raises(SourceError, match=rf"shop\.t\.{name} holds 0000-00-00"):
        source.visit()
