"""What a warehouse owns at its sources is its own: another one takes neither its slot nor its log, and is told so."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.runtime.databases import Database
from tests.sources.rounds import loaded_position
from weir.algebra.catalog import Relation
from weir.cli.main import app
from weir.operation.checks import check
from weir.operation.identity import owner_of, take_identity
from weir.project.folder import Project, RunKeys, SparkKeys
from weir.project.kinds import SourceSpec, specify
from weir.proving.databases import Servers
from weir.sources.source import CannotWatch, LoadAgain, Source
from weir.sources.sqlite.capture import install

ONE, OTHER = "aaaaaaaaaaaa /srv/one", "bbbbbbbbbbbb /srv/other"
COLUMNS = ("id", "v")


@pytest.fixture(params=["sqlite", "postgres", "postgres-triggers"])
def database(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Database]:
    """With one captured table."""
    made = Database(servers, request.param)
    made.create(["t"], ["CREATE TABLE t (id bigint PRIMARY KEY NOT NULL, v bigint)", "INSERT INTO t VALUES (1, 1)"])
    yield made
    made.close()


def spec_of(database: Database) -> SourceSpec:
    return specify("shop", database.kind, database.options)


def watching(database: Database, owner: str) -> Source:
    source = spec_of(database).owned_by(owner).open()
    source.watch({Relation("shop", "t"): COLUMNS})
    return source


def loaded(database: Database, owner: str) -> tuple[Source, str]:
    source = watching(database, owner)
    position = loaded_position(source)
    return source, position


def slots(database: Database) -> list[str]:
    mine = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{database.made.name}' ORDER BY 1"
    return [name for (name,) in database.query(mine)]


def test_a_second_warehouse_takes_nothing(database: Database) -> None:
    """With a slot both go their own way; a log that is trimmed refuses the second one until the first gives it up."""
    first, position = loaded(database, ONE)
    first.close()
    if database.kind == "postgres":
        second, _ = loaded(database, OTHER)
        second.close()
        assert len(slots(database)) == 2
        assert all(name.startswith(f"{database.options['slot']}_shop_") for name in slots(database))
    else:
        second = watching(database, OTHER)
        with pytest.raises(CannotWatch, match=r"is read by another warehouse, at /srv/one; .*: weir capture release"):
            second.load()
        with pytest.raises(CannotWatch, match="is read by another warehouse, at /srv/one"):
            second.resume(position)
        findings = spec_of(database).owned_by(OTHER).open().describe().findings
        assert "read by another warehouse, at /srv/one" in findings[0].problem
        second.close()
    database.transact(["INSERT INTO t VALUES (2, 2)"])
    first = watching(database, "aaaaaaaaaaaa /srv/moved")  # the same one, elsewhere
    first.resume(position)
    assert len(first.visit().transactions) == 1
    first.close()


def test_a_log_that_is_given_up(database: Database) -> None:
    """``weir capture release`` takes the mark, or the slot, away; the first reader then has to load again."""
    first, position = loaded(database, ONE)
    first.close()
    made = database.made
    where = ["--path", str(made.options["path"])] if database.kind == "sqlite" else [
        "--host", "127.0.0.1", "--port", str(made.options["port"]), "--database", made.name, "--user", "weir_admin",
        "--password", made.servers.password,
    ]  # fmt: skip
    name = ["--slot", slots(database)[0]] if database.kind == "postgres" else []
    result = CliRunner().invoke(app, ["capture", "release", database.kind, *where, *name])
    assert result.exit_code == 0, result.output
    if database.kind == "postgres":
        assert slots(database) == []
        with pytest.raises(LoadAgain, match="is gone"):
            watching(database, ONE).resume(position)
        return
    assert "took the mark of the warehouse at /srv/one off the log" in result.output
    second, later = loaded(database, OTHER)
    second.acknowledge(later)
    second.close()
    first = watching(database, ONE)
    with pytest.raises(CannotWatch, match="at /srv/other"):
        first.resume(position)
    first.close()


def test_a_log_from_before_there_were_owners(database: Database) -> None:
    """Its reader goes on with it; with a slot only that one, not somebody who begins."""
    before, position = loaded(database, "")
    before.close()
    database.transact(["INSERT INTO t VALUES (2, 2)"])
    after = watching(database, ONE)
    after.resume(position)
    assert len(after.visit().transactions) == 1
    after.close()
    if database.kind == "postgres":
        assert slots(database) == [database.options["slot"]]
        fresh, _ = loaded(database, OTHER)
        fresh.close()
        assert len(slots(database)) == 2
        told = spec_of(database).owned_by(OTHER).open().describe().findings
        idle = next(finding for finding in told if "nobody reads the slots" in finding.problem)
        assert f"'{database.options['slot']}'" in idle.problem
        assert "pg_drop_replication_slot" in idle.remedy


def test_check_says_so_as_well(database: Database, tmp_path: Path) -> None:
    """The project of another warehouse is not ready, unless it has a slot of its own; that of the reader is."""
    owner = take_identity(str(tmp_path / "mine"), {})
    first, _ = loaded(database, owner)
    first.close()
    take_identity(str(tmp_path / "other"), {})
    told = {}
    for name in ("mine", "other"):
        path = str(tmp_path / name)
        report = check(Project(tmp_path, path, {}, SparkKeys(), RunKeys(), {"shop": spec_of(database)}, {}))
        told[name] = "\n".join(text for _, text in report.lines())
    assert "read by another warehouse" not in told["mine"]
    foreign = f"is read by another warehouse, at {tmp_path / 'mine'}" in told["other"]
    assert foreign == (database.kind != "postgres")


def test_a_copied_file_is_nobodys(tmp_path: Path) -> None:
    """A project that is copied with its SQLite files reads logs of its own."""
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
    install(path, ["t"])
    for owner, at in ((ONE, path), (OTHER, copy)):
        source = specify("shop", "sqlite", {"path": str(at)}).owned_by(owner).open()
        source.watch({Relation("shop", "t"): COLUMNS})
        source.load()
        source.close()
        if at == path:
            shutil.copy(path, copy)


def test_two_trigger_logs_of_one_table(servers: Servers) -> None:
    """A second project captures into a schema of its own; the first one's triggers stay."""
    database = Database(servers, "postgres-triggers")
    database.create(["t"], ["CREATE TABLE t (id bigint PRIMARY KEY NOT NULL, v bigint)"])
    first, _ = loaded(database, ONE)
    made = database.made
    where = ["--host", "127.0.0.1", "--port", str(made.options["port"]), "--database", made.name]
    account = ["--user", "weir_admin", "--password", made.servers.password, "--reader", str(made.options["user"])]
    more = ["--log-schema", "weir_two"]
    install = ["capture", "install", "postgres-triggers", "t", *where, *account, *more]
    result = CliRunner().invoke(app, install)
    assert result.exit_code == 0, result.output
    database.options["log_schema"] = "weir_two"
    second, _ = loaded(database, OTHER)
    database.transact(["INSERT INTO t VALUES (2, 2)"])
    for source in (first, second):
        assert len(source.visit().transactions) == 1
        source.close()
    remove = ["capture", "remove", "postgres-triggers", *where, *account[:4], *more]
    assert CliRunner().invoke(app, remove).exit_code == 0
    assert database.query("SELECT tgname FROM pg_trigger WHERE tgrelid = 't'::regclass ORDER BY 1") == [
        ("weir_log",), ("weir_log_truncate",),
    ]  # fmt: skip
    database.close()


def test_a_warehouse_keeps_its_mark_when_moved_and_a_copy_gets_its_own(tmp_path: Path) -> None:
    """By the place that is written beside the mark; another way to the same folder is no copy."""
    place, moved, copy = (tmp_path / name for name in ("place", "moved", "copy"))
    assert owner_of(str(place), {}) == ""
    mark, _, where = take_identity(str(place), {}).partition(" ")
    assert where == str(place)
    assert owner_of(str(place), {}) == take_identity(str(place), {}) == f"{mark} {place}"
    (tmp_path / "link").symlink_to(place)
    assert take_identity(str(tmp_path / "link"), {}).startswith(mark)
    take_identity(str(place), {})
    shutil.copytree(place, copy)
    assert owner_of(str(copy), {}) == ""
    assert not take_identity(str(copy), {}).startswith(mark)
    place.rename(moved)
    assert take_identity(str(moved), {}) == f"{mark} {moved}"


def test_sources_without_an_owner_are_as_they_were(servers: Servers) -> None:
    """A source that is used by itself has the slot that it names."""
    options = Database(servers, "postgres").made.spec("shop").options
    assert options.own_slot == options.slot
    assert replace(options, owner=ONE).own_slot != replace(options, owner=OTHER).own_slot
