"""What is no plain InnoDB table: views, sequences, other engines, temporary and partitioned tables."""

from __future__ import annotations

import pytest

from tests.sources.mariadb.conftest import Place, changes
from weir.algebra.catalog import Relation
from weir.sources.source import CannotWatch, SchemaChanged

T = Relation("shop", "t")
PARTITIONED = (
    "CREATE TABLE t (a INT PRIMARY KEY) PARTITION BY RANGE (a)"
    " (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN MAXVALUE)"
)


def test_what_cannot_be_read_is_told_apart(place: Place) -> None:
    """Each with the reason; none of them is among the tables, and who watches one is told the same."""
    place.run(
        "CREATE TABLE plain (a INT PRIMARY KEY)", "CREATE VIEW seen AS SELECT a FROM plain", "CREATE SEQUENCE numbers",
        "CREATE TABLE old (a INT PRIMARY KEY) ENGINE = MyISAM", "CREATE TABLE safe (a INT PRIMARY KEY) ENGINE = Aria",
        "CREATE TABLE both_ (a INT PRIMARY KEY) ENGINE = MERGE UNION = (old)",
        "CREATE TABLE short (a INT PRIMARY KEY) ENGINE = MEMORY",
    )  # fmt: skip
    source = place.source({"plain": ("a",)})
    described = source.describe()
    told = {relation.table: why for relation, why in described.refused.items()}
    assert {table.relation.table for table in described.tables} == {"plain"}
    words = {
        "seen": "it is a view", "numbers": "SEQUENCE", "old": "MyISAM", "safe": "Aria", "both_": "MRG_MyISAM",
        "short": "MEMORY",
    }  # fmt: skip
    assert {name: word for name, word in words.items() if word not in told[name]} == {}
    with pytest.raises(CannotWatch, match="its engine MyISAM has no snapshots: ALTER TABLE `old` ENGINE = InnoDB"):
        source.watch({Relation("shop", "old"): ("a",)})


def test_a_temporary_table_of_the_same_name(place: Place) -> None:
    """It hides the real one from its session, and is in no log."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)})
    place.run("CREATE TEMPORARY TABLE t (b INT)", "INSERT INTO t VALUES (7)", "DROP TEMPORARY TABLE t")
    place.run("INSERT INTO t VALUES (1)")
    assert changes(source.visit(), "t", "a") == [(0, 1, 1)]


def test_partitions_are_a_matter_of_the_server(place: Place) -> None:
    """Rows come from all of them, also from a new one."""
    place.run(PARTITIONED)
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO t VALUES (1), (11)", "UPDATE t SET a = 12 WHERE a = 1")
    assert sorted(changes(source.visit(), "t", "a")) == [(0, 1, 1), (0, 1, 11), (1, -1, 1), (1, 1, 12)]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t TRUNCATE PARTITION p", "ALTER TABLE t DROP PARTITION p",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other", "ALTER TABLE t ENGINE = MyISAM",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE fresh",
    ],
)  # fmt: skip
def test_rows_that_go_with_a_partition(place: Place, statement: str) -> None:
    """No log tells them: the source stops before a wrong row is delivered."""
    place.run(PARTITIONED, "CREATE TABLE other (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = place.source({"t": ("a",)})
    place.run(statement)
    with pytest.raises(SchemaChanged, match=r"table shop\.t was changed by: ALTER TABLE t"):
        source.visit()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other",
        "ALTER TABLE t CONVERT TABLE other TO PARTITION r VALUES LESS THAN (20)",
    ],
)
def test_a_table_that_becomes_a_partition(place: Place, statement: str) -> None:
    """Its rows go into another table without a word in the log."""
    last = "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (10))"
    place.run(f"CREATE TABLE t (a INT PRIMARY KEY) {last}", "CREATE TABLE other (a INT PRIMARY KEY)")
    source = place.source({"other": ("a",)})
    place.run(statement)
    with pytest.raises(SchemaChanged, match=r"table shop\.other was changed by: ALTER TABLE t"):
        source.visit()
