"""Tables that share rows or logs with others: children, partitions, views. Each is read exactly, or refused by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.sources.postgres.conftest import Lab
from tests.sources.rounds import loaded_position
from weir.algebra.catalog import Relation
from weir.proving.oracle import rows_of
from weir.sources.source import WEIGHT, CannotWatch, SchemaChanged, Visit

PARENT, CHILD = Relation("pg", "parent"), Relation("pg", "child")
LOW, HIGH = Relation("pg", "low"), Relation("pg", "high")
FAMILY = ("CREATE TABLE parent (id int PRIMARY KEY, v text)", "CREATE TABLE child (w int) INHERITS (parent)")
PARTITIONED = (
    "CREATE TABLE whole (id int, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF whole FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE high PARTITION OF whole FOR VALUES FROM (100) TO (200)",
)


def net(visit: Visit, relation: Relation) -> dict[tuple[Any, ...], int]:
    """What a visit has changed in a table: rows with their weights."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in rows_of(visit.changes[relation], ("id", "v", WEIGHT)) if relation in visit.changes else ():
        found[tuple(row)] += weight
    return {row: weight for row, weight in found.items() if weight}


def test_what_cannot_be_read_is_told_apart(lab: Lab) -> None:
    """Each with the reason and the way out; none of them is among the tables."""
    lab.execute(
        *FAMILY, *PARTITIONED, "CREATE VIEW seen AS SELECT 1 AS id", "CREATE SEQUENCE numbers",
        "CREATE MATERIALIZED VIEW kept AS SELECT 1 AS id", "CREATE EXTENSION IF NOT EXISTS postgres_fdw",
        "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw", "CREATE FOREIGN TABLE remote (id int) SERVER far",
    )  # fmt: skip
    described = lab.open().describe()
    told = {relation.table: why for relation, why in described.refused.items()}
    assert "child tables (child)" in told["parent"]
    assert "ALTER TABLE child NO INHERIT parent" in told["parent"]
    assert "read its partitions (high, low), put together by UNION ALL" in told["whole"]
    for name, words in {"seen": "it is a view", "kept": "materialized", "remote": "foreign", "numbers": "seq"}.items():
        assert words in told[name]
    assert {table.relation.table for table in described.tables} == {"child", "low", "high"}


def test_a_parent_is_refused_and_a_child_is_read(lab: Lab) -> None:
    """A child's rows are its own, wherever they were written through."""
    lab.execute(*FAMILY)
    lab.capture("parent", "child")
    source = lab.open()
    with pytest.raises(SchemaChanged, match=r"pg\.parent cannot be read by a view: it has child tables \(child\)"):
        source.watch({PARENT: ("id", "v")})
    source.watch({CHILD: ("id", "v")})
    source.load().held.release()
    lab.execute("INSERT INTO child VALUES (1, 'a', 1), (2, 'b', 1)", "UPDATE parent SET v = 'c' WHERE id = 1")
    assert net(source.visit(), CHILD) == {(1, "c"): 1, (2, "b"): 1}
    lab.execute("DELETE FROM parent WHERE id = 2", "TRUNCATE parent")
    visit = source.visit()
    assert visit.truncations.get(CHILD) or net(visit, CHILD) == {(1, "c"): -1, (2, "b"): -1}


@pytest.mark.parametrize(
    "act", ["CREATE TABLE kid () INHERITS (parent)", "ALTER TABLE other INHERIT parent"], ids=["made", "altered"]
)
def test_a_table_that_becomes_a_parent(lab: Lab, act: str) -> None:
    """Noticed at the next visit, before a row of the child's is missed; and by who resumes."""
    lab.execute(FAMILY[0], "CREATE TABLE other (id int NOT NULL, v text)")
    lab.capture("parent")
    source = lab.open()
    source.watch({PARENT: ("id", "v")})
    position = loaded_position(source)
    lab.execute(act)
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=r"pg\.parent cannot be read any more: it has child tables \((kid|oth)"):
            source.visit()
    source.close()
    again = lab.open()
    with pytest.raises(SchemaChanged, match="it has child tables"):
        again.watch({PARENT: ("id", "v")})
    lab.execute("ALTER TABLE kid NO INHERIT parent" if "kid" in act else "ALTER TABLE other NO INHERIT parent")
    again.watch({PARENT: ("id", "v")})
    again.resume(position)
    lab.execute("INSERT INTO parent VALUES (1, 'a')")
    assert net(again.visit(), PARENT) == {(1, "a"): 1}


def test_partitions_are_tables(lab: Lab) -> None:
    """Rows that are written through the whole, moved between partitions, or taken away by TRUNCATE."""
    lab.execute(*PARTITIONED)
    lab.capture("low", "high")
    source = lab.open()
    source.watch({LOW: ("id", "v"), HIGH: ("id", "v")})
    source.load().held.release()
    lab.execute("INSERT INTO whole VALUES (1, 'a'), (101, 'b')", "UPDATE whole SET id = 102 WHERE id = 1")
    visit = source.visit()
    assert net(visit, LOW) == {}
    assert net(visit, HIGH) == {(101, "b"): 1, (102, "a"): 1}
    lab.execute("ALTER TABLE whole DETACH PARTITION low", "INSERT INTO low VALUES (500, 'c')")
    assert net(source.visit(), LOW) == {(500, "c"): 1}
    lab.execute("TRUNCATE whole")
    visit = source.visit()
    assert visit.truncations.get(HIGH) or net(visit, HIGH) == {(101, "b"): -1, (102, "a"): -1}


def test_a_partition_that_only_its_root_publishes(replication_lab: Lab) -> None:
    """Detached it is published no more: that is noticed before one of its changes is missed."""
    lab = replication_lab
    lab.execute(*PARTITIONED, "ALTER TABLE low REPLICA IDENTITY FULL", "CREATE PUBLICATION weir FOR TABLE whole")
    lab.execute(f"GRANT SELECT ON low TO {lab.role}")
    source = lab.open()
    source.watch({LOW: ("id", "v")})
    source.load().held.release()
    lab.execute("INSERT INTO whole VALUES (1, 'a')")
    assert net(source.visit(), LOW) == {(1, "a"): 1}
    lab.execute("ALTER TABLE whole DETACH PARTITION low", "INSERT INTO low VALUES (2, 'b')")
    with pytest.raises(SchemaChanged, match=r"pg\.low was altered \(it was attached .* or detached\)"):
        source.visit()


def test_a_publication_under_the_roots_name(replication_lab: Lab) -> None:
    """The stream would tell a partition's changes as the whole's: refused with what mends it, also when it comes."""
    lab = replication_lab
    lab.execute(*PARTITIONED, "ALTER TABLE low REPLICA IDENTITY FULL")
    lab.execute("CREATE PUBLICATION weir FOR TABLE whole, low WITH (publish_via_partition_root)")
    lab.execute(f"GRANT SELECT ON low TO {lab.role}")
    source = lab.open()
    with pytest.raises(CannotWatch, match=r"published as its partitioned table's; run: .*via_partition_root = false"):
        source.watch({LOW: ("id", "v")})
    lab.execute("ALTER PUBLICATION weir SET (publish_via_partition_root = false)")
    source.watch({LOW: ("id", "v")})
    source.load().held.release()
    lab.execute("ALTER PUBLICATION weir SET (publish_via_partition_root = true)", "INSERT INTO whole VALUES (1, 'a')")
    with pytest.raises(SchemaChanged, match="what feeds the change log"):
        source.visit()
