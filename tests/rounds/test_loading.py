"""What Spark is told of tables that tasks read: it would take the largest for a few numbers, and send it to all."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.sources.files.producer import put
from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.rounds.holds import Hold
from weir.rounds.loading import HeldTables
from weir.sources.files import FilesOptions, FilesSource, lookup

pytestmark = pytest.mark.spark
THINGS, NOTES = Relation("lake", "things"), Relation("lake", "notes")
SCHEMAS = {THINGS: Schema.parse("id bigint, name string"), NOTES: Schema.parse("id bigint")}


@pytest.mark.parametrize("plainly", [False, True], ids=["load", "audit"])
@pytest.mark.parametrize(("small", "expected"), [(1 << 20, "BroadcastHashJoin"), (1, "SortMergeJoin")])
def test_only_a_small_table_goes_to_every_task(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, small: int, expected: str, plainly: bool
) -> None:
    """The rows are the same; a large table is joined where its rows are."""
    monkeypatch.setattr(lookup, "SMALL", small)
    put(tmp_path, "things", "1", [(number, f"name {number}") for number in range(30)])
    put(tmp_path, "notes", "1", [(number,) for number in range(0, 60, 2)])
    source = FilesSource(FilesOptions("lake", str(tmp_path)), spark)
    source.watch({relation: schema.names for relation, schema in SCHEMAS.items()})
    held = source.load().held
    with HeldTables(spark, {"lake": Hold("lake", held)}, SCHEMAS, str(tmp_path), plainly) as tables:
        joined = tables[THINGS].join(tables[NOTES], "id")
        assert expected in plan_of(joined)
        assert sorted(row.id for row in joined.collect()) == list(range(0, 30, 2))
    held.release()
    source.close()


def plan_of(frame: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain()
    return printed.getvalue()
