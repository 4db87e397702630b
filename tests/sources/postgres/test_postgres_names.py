"""Names that the database allows, among them those of our own log's columns."""

from __future__ import annotations

from dataclasses import replace

from psycopg import sql

from tests.sources.postgres.conftest import Lab, changes
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.oracle import rows_of
from weir.proving.servers.postgres import ADMIN
from weir.sources.postgres.installing import PostgresTriggersCapture
from weir.sources.postgres.options import MARKER_TABLE

NAMES = ("__xid", "__seq", "xid", "seq", "weight", "c1", "t", "log", "tableoid2", "names", 'q"uote', "per%cent", "{0}")


def test_columns_with_the_names_of_the_logs_own(lab: Lab) -> None:
    """Loaded, changed, truncated and asked for under any name."""
    columns = ", ".join(sql.Identifier(name).as_string(None) + " int" for name in NAMES)
    lab.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    values = ", ".join(str(number) for number in range(len(NAMES)))
    lab.execute(f"INSERT INTO t VALUES (1, {values})")
    lab.capture("t")
    watch = lab.watch(t=("id", *NAMES))
    lab.execute(f"INSERT INTO t VALUES (2, {values})", 'UPDATE t SET "__xid" = 77, "__seq" = 78 WHERE id = 1')
    by_xid = MemoryBag.of(t.Schema([t.Column("__xid", t.INT)]), [(77,)])
    lookup = Lookup(Relation("pg", "t"), ("id", "__xid", "__seq"), ("__xid",), by_xid)
    visit = watch.visit(Lookup(Relation("pg", "t"), ("id", *NAMES)), lookup)
    assert list(rows_of(watch.answers[1], ("id", "__xid", "__seq"))) == [(1, 77, 78)]
    assert len(changes(visit, "t")) == 3
    watch.resume()
    lab.execute("TRUNCATE t", f"INSERT INTO t VALUES (3, {values})")
    watch.visit(Lookup(Relation("pg", "t"), ("id", *NAMES)))
    watch.assert_complete()


def test_the_table_of_global_transactions_can_be_named(trigger_lab: Lab) -> None:
    """Installing capture for it by name is as good as leaving it out: it is captured wherever it exists."""
    lab = trigger_lab
    lab.execute("CREATE TABLE t (id int PRIMARY KEY)", f"CREATE TABLE {MARKER_TABLE} (id text, sources text[])")
    capture = PostgresTriggersCapture(replace(lab.options(), user=ADMIN), lab.role)
    assert capture.install(["t", MARKER_TABLE], dry_run=False)[:2] == ["t: captured", f"{MARKER_TABLE}: captured"]
    assert "already" in capture.install([MARKER_TABLE], dry_run=False)[0]
    lab.execute(f"GRANT SELECT ON t TO {lab.role}")
    watch = lab.watch(t=("id",))
    lab.execute(f"BEGIN; INSERT INTO t VALUES (1); INSERT INTO {MARKER_TABLE} VALUES ('g', '{{pg,x}}'); COMMIT")
    (transaction,) = watch.visit().transactions
    assert transaction.part_of is not None
    assert transaction.part_of.identifier == "g"
