"""The reference Delta Lake on its own Spark, as a program: reads and tends tables for ``tests.clients.foreign``.

It runs in the environment ``.places/reference``, which has nothing of ours. Each line on stdin is a request, each line
on stdout its answer: the Parquet files with the rows, or the error. One start of the JVM serves all requests.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    # The tables are small: what follows saves time and changes no answer.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def jar() -> str:
    package = importlib.util.find_spec("jsoniq")
    assert package is not None
    assert package.origin is not None
    (file,) = Path(package.origin).parent.glob("jars/*.jar")
    return str(file)


def registered(folder: Path) -> str:
    """A class path on which Spark finds the format ``delta``: the jar's own list of formats leaves it out."""
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    services.joinpath("org.apache.spark.sql.sources.DataSourceRegister").write_text(
        "org.apache.spark.sql.delta.sources.DeltaDataSource\n", encoding="utf-8"
    )
    return f"{folder}{os.pathsep}{jar()}"


@contextmanager
def session() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[1]").appName("the reference client")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        places = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.local.dir": folder}
        for key, value in places.items():
            builder = builder.config(key, value)
        spark = builder.config("spark.driver.extraClassPath", registered(Path(folder) / "classes")).getOrCreate()
        yield spark
        spark.stop()


def frame(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    if "sql" in request:
        return spark.sql(request["sql"])
    reader = spark.read.format("delta")
    if "changes" in request:
        bounds = {"startingVersion": request["from"], "endingVersion": request["to"]}
        return reader.option("readChangeFeed", "true").options(**bounds).load(request["changes"])
    version = {} if request["version"] is None else {"versionAsOf": request["version"]}
    return reader.options(**version).load(request["read"])


def answer(spark: SparkSession, request: dict[str, Any]) -> list[str]:
    found, into = frame(spark, request), Path(request["into"]) / "rows"
    if not found.columns:  # a command that has nothing to say
        return []
    found.coalesce(1).write.parquet(str(into))
    return sorted(str(file) for file in into.glob("*.parquet"))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the JVM or a library prints is no answer
    with session() as spark:
        for line in sys.stdin:
            try:
                told: dict[str, Any] = {"files": answer(spark, json.loads(line))}
            except Exception as error:  # whatever Spark says, the test shall say
                told = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
