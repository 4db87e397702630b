"""Going on after a restart, a crash, a lost connection; and refusing, with the way out, when the log is gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sources.mariadb.conftest import Place, changes, whole
from weir.proving.oracle import ask, rows_of
from weir.sources.mysql.position import LogPosition, parse_gtids
from weir.sources.source import LoadAgain, SchemaChanged, SourceError

BOTH = pytest.mark.parametrize("positions", ["file", "gtid"])
OwnPlace = Callable[..., Place]


@BOTH
def test_resume_delivers_exactly_what_came_after(place: Place, positions: str) -> None:
    """From a stored position everything after it comes once, by file and by GTID, over several binlog files."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b LONGTEXT)")
    source = place.source({"t": ("a",)}, positions=positions)
    place.run("INSERT INTO t VALUES (1, '')")
    position = source.visit().position
    source.close()
    place.run(
        "INSERT INTO t VALUES (2, REPEAT('x', 600000))",
        "FLUSH BINARY LOGS",
        "INSERT INTO t VALUES (3, REPEAT('x', 1100000))",
    )
    for _ in range(2):
        again = place.source({"t": ("a",)}, load=False, positions=positions)
        again.resume(position)
        visit, (answer,) = ask(again, [whole("t", "a")])
        assert changes(visit, "t", "a") == [(0, 1, 2), (1, 1, 3)]
        assert list(rows_of(answer, ("a",))) == [(1,), (2,), (3,)]
        again.close()
    final = place.source({"t": ("a",)}, load=False, positions=positions)
    final.resume(visit.position)
    assert final.visit().transactions == ()
    place.run("DELETE FROM t WHERE a = 1")
    assert changes(ask(final, [])[0], "t", "a") == [(0, -1, 1)]


def test_gtid_goes_on_where_file_names_mean_nothing(own_place: OwnPlace) -> None:
    """A replica has other files and offsets; by GTID a source goes on there, by file it is refused."""
    first, second = own_place(server_id="1"), own_place(server_id="2", log_slave_updates="ON")
    first.run(
        "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'"
    )
    second.run("STOP SLAVE", "RESET MASTER", "DROP DATABASE own", "SET GLOBAL gtid_slave_pos = ''", "RESET MASTER")
    second.run(
        f"CHANGE MASTER TO master_host='127.0.0.1', master_port={first.server.port}, master_user='repl', "
        "master_password='secret', master_use_gtid=slave_pos"
    )
    first.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = first.source({"t": ("a",)})
    first.run("INSERT INTO t VALUES (1)")
    position = source.visit().position
    source.close()
    first.run("INSERT INTO t VALUES (2)")
    second.run(
        "START SLAVE", f"SELECT MASTER_GTID_WAIT('{first.run('SELECT @@gtid_current_pos')[0][0]}', 20)", "USE own"
    )
    by_gtid = second.source({"t": ("a",)}, load=False, positions="gtid")
    by_gtid.resume(position)
    visit, (answer,) = ask(by_gtid, [whole("t", "a")])
    assert changes(visit, "t", "a") == [(0, 1, 2)]
    assert list(rows_of(answer, ("a",))) == [(1,), (2,)]
    by_file = second.source({"t": ("a",)}, load=False)
    with pytest.raises(LoadAgain):
        by_file.resume(position)
    second.run("STOP SLAVE")


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_a_server_that_comes_back(own_place: OwnPlace, how: str) -> None:
    """After kill -9 or a restart the same source goes on by itself: the next visit has everything, once."""
    place = own_place()
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO t VALUES (1)")
    assert len(source.visit().transactions) == 1
    place.run("INSERT INTO t VALUES (2)")
    if how == "kill":
        place.server.kill()
        with pytest.raises(SourceError, match=r"cannot connect|lost the connection"):
            source.visit()
        place.server.start()
    else:
        place.server.restart()
    place.connection = place.server.connect("own", autocommit=True)
    place.run("INSERT INTO t VALUES (3)")
    visit, (answer,) = ask(source, [whole("t", "a")])
    assert changes(visit, "t", "a") == [(0, 1, 2), (1, 1, 3)]
    assert list(rows_of(answer, ("a",))) == [(1,), (2,), (3,)]


def test_dropped_connections(place: Place) -> None:
    """KILL of every connection between visits, again and again: nothing lost, nothing twice."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)})
    for number in range(1, 6):
        place.run(f"INSERT INTO t VALUES ({number})")
        for (connection,) in place.run(
            "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'weir'"
        ):
            place.run(f"KILL {connection}")
        visit, (answer,) = ask(source, [whole("t", "a")])
        assert changes(visit, "t", "a") == [(0, 1, number)]
        assert answer.num_rows == number


@BOTH
def test_a_purged_binlog_means_loading_again(own_place: OwnPlace, positions: str) -> None:
    """When the file of the position is gone, resume says so and what to run; nothing is skipped."""
    place = own_place()
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)}, positions=positions)
    position = source.visit().position
    source.close()
    place.run("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS")
    place.run(f"PURGE BINARY LOGS TO '{place.run('SHOW MASTER STATUS')[0][0]}'")
    again = place.source({"t": ("a",)}, load=False, positions=positions)
    with pytest.raises(LoadAgain, match="load the views that use this source again"):
        again.resume(position)


def test_a_log_that_was_reset_is_not_mistaken_for_the_old_one(own_place: OwnPlace) -> None:
    """After RESET MASTER the same file name and offset exist again, with other transactions: refused by the file's
    own time stamp.
    """
    place = own_place()
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO t VALUES (1)")
    position = source.visit().position
    place.run("DO SLEEP(1.1)", "RESET MASTER", "DELETE FROM t", *(f"INSERT INTO t VALUES ({n})" for n in range(20)))
    place.run("CREATE TABLE filler (a LONGTEXT)", "INSERT INTO filler VALUES (REPEAT('x', 5000))")
    assert place.run("SHOW MASTER STATUS")[0][0] == LogPosition.parse(position).place.file
    assert place.run("SHOW MASTER STATUS")[0][1] > LogPosition.parse(position).place.offset
    again = place.source({"t": ("a",)}, load=False)
    with pytest.raises(LoadAgain, match="RESET MASTER"):
        again.resume(position)
    with pytest.raises(SourceError):
        source.visit()


def test_ddl_while_away_is_noticed(place: Place) -> None:
    """Columns of the same type that changed places while nobody read: the log's own ALTER stops the source before a
    row comes out.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
    source = place.source({"t": ("a", "b", "c")})
    position = source.visit().position
    source.close()
    place.run(
        "INSERT INTO t VALUES (1, 2, 3)",
        "ALTER TABLE t MODIFY b INT AFTER c",
        "INSERT INTO t (a, b, c) VALUES (4, 5, 6)",
    )
    again = place.source({"t": ("a", "b", "c")}, load=False)
    again.resume(position)
    with pytest.raises(SchemaChanged, match="MODIFY b INT AFTER c"):
        again.visit()
    fresh = place.source({"t": ("a", "b", "c")})
    place.run("INSERT INTO t (a, b, c) VALUES (7, 8, 9)")
    assert changes(fresh.visit(), "t", "a", "b", "c") == [(0, 1, 7, 8, 9)]


def test_ddl_between_watch_and_load_is_noticed(place: Place) -> None:
    """The load compares the catalogue again, with the tables locked against DDL."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
    source = place.source({"t": ("a", "b", "c")}, load=False)
    place.run("ALTER TABLE t MODIFY b INT AFTER c")
    with pytest.raises(SchemaChanged, match=r"shop\.t\.[bc] has changed"):
        source.load()


def test_positions_name_the_gtid(place: Place) -> None:
    """A position carries the GTIDs of what it holds, as the server counts them."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO t VALUES (1)")
    visit = source.visit()
    told = parse_gtids(place.run("SELECT @@gtid_binlog_pos")[0][0])
    assert parse_gtids(LogPosition.parse(visit.position).gtid) == told
    assert visit.transactions[0].identifier == f"0-{told[0][0]}-{told[0][1]}"
