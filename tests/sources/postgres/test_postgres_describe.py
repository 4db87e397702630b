"""What a source tells of itself, and what it says is missing, with the SQL that mends it."""

from __future__ import annotations

import pytest
from psycopg import sql

from tests.sources.postgres.conftest import Lab
from weir.algebra.catalog import ForeignKey, Relation
from weir.sources.source import Finding, SourceError

T = Relation("pg", "t")


def findings(lab: Lab) -> list[Finding]:
    return list(lab.open().describe().findings)


def test_tables_types_keys_and_indexes(lab: Lab) -> None:
    """Columns with our types, primary key, foreign keys and usable indexes; unmappable columns are listed apart."""
    lab.execute("CREATE TABLE parent (a int, b text, PRIMARY KEY (a, b))")
    lab.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, a int, b text, price numeric(12,2), loose numeric, span interval,"
        " tags text[], at timestamptz, FOREIGN KEY (a, b) REFERENCES parent)",
        "CREATE INDEX ON t (b, a)",
        "CREATE INDEX ON t (lower(b))",
    )
    lab.capture("t", "parent")
    description = lab.open().describe()
    tables = {table.relation.table: table for table in description.tables}
    assert str(tables["t"].schema) == "id bigint, a int, b string, price decimal(12,2), at timestamp"
    assert tables["t"].key == ("id",)
    assert tables["t"].foreign_keys == (ForeignKey(("a", "b"), "parent", ("a", "b")),)
    assert tables["t"].indexes == (("id",), ("b", "a"))
    assert set(description.unmapped[T]) == {"loose", "span", "tags"}
    assert [finding for finding in description.findings if finding.severity == "error"] == []


def test_sizes_are_known_once_analyzed(replication_lab: Lab) -> None:
    """As the planner has them; before that a table has none."""
    replication_lab.execute("CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 300)")
    assert T not in replication_lab.open().describe().rows
    replication_lab.execute("ANALYZE t")
    assert replication_lab.open().describe().rows[T] == 300


def test_an_unmappable_column_is_refused_only_when_used(lab: Lab) -> None:
    """By table, column and type; an unused one is no matter."""
    lab.execute("CREATE TABLE t (id int, loose numeric, span interval, big numeric(50,2), neg numeric(4,-2))")
    lab.capture("t")
    source = lab.open()
    for column, reason in (("loose", "numeric"), ("span", "interval"), ("big", "precision"), ("neg", "numeric")):
        with pytest.raises(SourceError, match=rf"pg\.t\.{column} cannot be used by a view.*{reason}"):
            source.watch({T: ("id", column)})
    source.watch({T: ("id",)})
    with pytest.raises(SourceError, match="no column 'missing'"):
        source.watch({T: ("missing",)})
    with pytest.raises(SourceError, match=r"pg\.nowhere is not a table"):
        source.watch({Relation("pg", "nowhere"): ("id",)})


def test_generated_columns_are_in_no_replication_stream(replication_lab: Lab, trigger_lab: Lab) -> None:
    """Logical replication leaves them out, so a view may not use them there; the trigger log has them."""
    for lab in (replication_lab, trigger_lab):
        lab.execute("CREATE TABLE t (id int, twice int GENERATED ALWAYS AS (id * 2) STORED)")
        lab.capture("t")
    with pytest.raises(SourceError, match=r"pg\.t\.twice.*generated"):
        replication_lab.watch(t=("id", "twice"))
    watch = trigger_lab.watch(t=("id", "twice"))
    trigger_lab.execute("INSERT INTO t VALUES (4)")
    watch.visit()
    watch.assert_complete()


def apply(lab: Lab, remedies: list[str]) -> None:
    """Runs what the findings say, as an administrator would."""
    lab.execute(*remedies)


def test_what_is_missing_for_replication_is_told_and_mended(replication_lab: Lab) -> None:
    """Every remedy, run as it stands, takes its finding away, until watch works."""
    lab = replication_lab
    lab.execute('CREATE TABLE "odd ""t"" ; name" (id int PRIMARY KEY)')
    source = lab.open()
    relation = Relation("pg", 'odd "t" ; name')
    with pytest.raises(SourceError, match="may not read"):
        source.watch({relation: ("id",)})
    for _ in range(4):
        missing = [
            f.remedy for f in source.describe().findings if f.severity == "error" or "not published" in f.problem
        ]
        if not missing:
            break
        apply(lab, missing)
    assert [f for f in source.describe().findings if f.severity == "error"] == []
    source.watch({relation: ("id",)})


def test_an_incomplete_publication_is_refused(replication_lab: Lab) -> None:
    """Left-out operations, row filters and column lists would hide changes."""
    lab = replication_lab
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
    lab.capture("t")
    for change in (
        "ALTER PUBLICATION weir SET (publish = 'insert, update, delete')",
        "ALTER PUBLICATION weir SET (publish = 'insert, update, delete, truncate');"
        " ALTER PUBLICATION weir SET TABLE t WHERE (n > 1)",
        "ALTER PUBLICATION weir SET TABLE t (id)",
    ):  # fmt: skip
        lab.execute(change)
        source = lab.open()
        with pytest.raises(SourceError, match=r"publication.*run: ALTER PUBLICATION"):
            source.watch({T: ("id",)})
        errors = [finding.remedy for finding in source.describe().findings if finding.severity == "error"]
        apply(lab, errors)
        source.watch({T: ("id",)})


def test_settings_that_stand_in_the_way_are_told(replication_lab: Lab) -> None:
    """An unlimited slot may fill the disk: a warning with the setting."""
    warnings = {f.problem.split(" ")[0]: f.remedy for f in findings(replication_lab) if f.severity == "warning"}
    assert "max_slot_wal_keep_size" in warnings["max_slot_wal_keep_size"]


def test_unlogged_tables_are_refused(replication_lab: Lab) -> None:
    """Their changes are in no log."""
    replication_lab.execute("CREATE UNLOGGED TABLE t (id int)", f"GRANT SELECT ON t TO {replication_lab.role}")
    with pytest.raises(SourceError, match=r"unlogged.*SET LOGGED"):
        replication_lab.open().watch({T: ("id",)})


def test_a_missing_trigger_log_is_told(trigger_lab: Lab) -> None:
    """Without installation nothing is watched."""
    trigger_lab.execute("CREATE TABLE t (id int)", f"GRANT SELECT ON t TO {trigger_lab.role}")
    source = trigger_lab.open()
    assert any("no trigger log" in finding.problem for finding in source.describe().findings)
    with pytest.raises(SourceError, match="weir capture install"):
        source.watch({T: ("id",)})


def test_the_least_rights_are_enough_and_no_more(lab: Lab) -> None:
    """The role cannot write the tables, and with the trigger log cannot forge it."""
    lab.execute("CREATE TABLE t (id int)")
    lab.capture("t")
    lab.watch(t=("id",))
    can = "SELECT has_table_privilege('{}', 'public.t', 'INSERT, UPDATE, DELETE, TRUNCATE')"
    assert lab.query(can.format(lab.role)) == [(False,)]
    if lab.kind == "postgres-triggers":
        oid = lab.query("SELECT 't'::regclass::oid::int8")[0][0]
        assert lab.query(f"SELECT has_table_privilege('{lab.role}', 'weir.log_{oid}', 'INSERT, UPDATE')") == [(False,)]
        assert lab.query(f"SELECT has_function_privilege('{lab.role}', 'weir.log_{oid}()', 'EXECUTE')") == [(False,)]


def test_another_schema(lab: Lab) -> None:
    """Tables of the schema that the options name, and only those."""
    lab.execute(
        'CREATE SCHEMA "Odd Schema"', 'CREATE TABLE "Odd Schema".t (id int)', "CREATE TABLE public.t (other int)"
    )
    lab.capture("t", schema="Odd Schema")
    source = lab.open(schema="Odd Schema")
    assert [str(table.schema) for table in source.describe().tables] == ["id int"]
    source.watch({T: ("id",)})
    source.load().held.release()
    lab.execute('INSERT INTO "Odd Schema".t VALUES (1)', "INSERT INTO public.t VALUES (2)")
    assert source.visit().changes[T].column("id").to_pylist() == [1]


def test_partitioned_tables_are_not_offered(lab: Lab) -> None:
    """A partitioned table is no ordinary table; its partitions are, each by itself."""
    lab.execute(
        "CREATE TABLE t (id int) PARTITION BY RANGE (id)", "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)"
    )
    names = {table.relation.table for table in lab.open().describe().tables}
    assert names == {"t1"}
    assert sql.Identifier("t").as_string(None) == '"t"'


def test_a_missing_right_to_the_schema_is_told(lab: Lab) -> None:
    """A role without USAGE is told so, with the grant that mends it."""
    lab.execute("CREATE SCHEMA closed", "CREATE TABLE closed.t (id int)", f"GRANT SELECT ON closed.t TO {lab.role}")
    source = lab.open(schema="closed")
    remedies = [finding.remedy for finding in source.describe().findings if "may not use schema" in finding.problem]
    assert remedies == [f'GRANT USAGE ON SCHEMA "closed" TO "{lab.role}";']
