"""The session: what it fixes, what it leaves alone, and which Python its workers run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from weir.algebra.expression import Expression
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.spark.session import inside, open_session

pytestmark = pytest.mark.spark


def test_a_view_means_the_same_in_every_session(spark: SparkSession) -> None:
    """Time zone UTC and ANSI errors, whatever the machine's own settings are."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    instant = spark.sql("SELECT CAST(TIMESTAMP'2020-01-01 00:00:00 UTC' AS STRING) AS t").first()
    assert instant == ("2020-01-01 00:00:00",)
    with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
        spark.sql("SELECT 2147483647 + 1").collect()


def test_a_running_session_is_left_as_it_is(spark: SparkSession) -> None:
    """Weir works beside a user's session: the same application, settings of its own."""
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    ours = inside(theirs, {"spark.sql.shuffle.partitions": "3"})
    names = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    assert [theirs.conf.get(name) for name in names] == ["Asia/Tokyo", "false"]
    assert [ours.conf.get(name) for name in names] == ["UTC", "true"]
    assert ours.conf.get("spark.sql.shuffle.partitions") == "3"


def test_a_second_session_joins_the_running_application(spark: SparkSession) -> None:
    """Opening a session where Spark runs already gives one beside it, not a second application and not the same one."""
    second = open_session("local[1]")
    assert second is not spark
    assert second.conf.get("spark.sql.session.timeZone") == "UTC"


def test_workers_run_the_drivers_python(spark: SparkSession) -> None:
    """A task has this interpreter and its packages: an Arrow bag works there, shipped by pickle."""
    bag = ArrowBag.weighted(Schema.parse("k int, n decimal(10,2)"), [((1, Decimal("2.50")), 2), ((2, None), -1)])

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            found = bag.select(Expression("`k` < 2")).keep(["n"])
            yield pa.record_batch([[sys.executable], [str(found)]], ["python", "found"])

    rows = spark.range(1).mapInArrow(task, "python string, found string").collect()
    assert [tuple(row) for row in rows] == [(sys.executable, "2*(Decimal('2.50'))")]
