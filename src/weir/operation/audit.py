"""The online audit: a view compared, row by row, with its definition over the sources at one known vector.

It takes part in a round. The round holds one snapshot per source; its transactions bring the view to exactly the vector
of those snapshots. So the definition is evaluated over the whole tables as the snapshots show them, and compared with
the view as of the round's end, while the sources go on.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.errors import WeirError
from weir.messages import Position
from weir.rounds.engine import Engine
from weir.rounds.units import RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.spark.frame_bag import FrameBag
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

_SAMPLES = 10
_COUNT, _EXPECTED = "count", "expected"


@dataclass(frozen=True)
class Audit:
    """What was found: how many rows the view has, lacks, and has too many, at these positions."""

    view: str
    positions: Mapping[str, Position]
    rows: int
    missing: int
    extra: int
    samples: list[dict[str, Any]] = field(default_factory=list)  # some of the wrong rows, with how many are too many

    @property
    def clean(self) -> bool:
        """Nothing is missing and nothing too much."""
        return not self.missing and not self.extra

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints; without samples where there are none."""
        document = asdict(self)
        return document if self.samples else {key: value for key, value in document.items() if key != "samples"}

    def __str__(self) -> str:
        found = f"view {self.view}: {self.rows} rows, {self.missing} missing, {self.extra} extra"
        lines = [f"  {row['too many']:+d} {json.dumps(row['row'], default=str)}" for row in self.samples]
        return "\n".join([found, *lines])


def audit(engine: Engine, names: list[str], scratch: str) -> list[Audit]:
    """Runs rounds until every view named has been compared once."""
    folder = Path(scratch) / f"audit-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        expected: dict[str, Path] = {}

        def keep(view: MaintainedView, value: FrameBag) -> None:
            """While the snapshots are held: afterwards the tables have moved on."""
            path = folder / view.name
            renamed = value.rows.toDF(*_numbered(len(value.schema)), _EXPECTED)
            renamed.write.parquet(path.as_uri())
            expected[view.name] = path

        engine.round(dict.fromkeys(names, keep))
        engine.flush()
        return [_compared(engine, name, expected) for name in names]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compared(engine: Engine, name: str, expected: Mapping[str, Path]) -> Audit:
    unit, view = _find(engine, name)
    if name not in expected or unit.state != RUNNING:
        raise WeirError(f"view {name} cannot be audited now: {unit.problem or f'it is {unit.state}'}")
    if unit.holds_back:
        raise WeirError(
            f"view {name} cannot be audited now: a transaction with parts at several sources is not complete; try again"
        )
    assert view.store is not None
    rows = engine.spark.read.parquet(expected[name].as_uri())
    return compare(view.store, rows, engine.spark, name)


def _find(engine: Engine, name: str) -> tuple[Unit, MaintainedView]:
    for unit in engine.units:
        for view in unit.views:
            if view.name == name:
                return unit, view
    raise WeirError(f"there is no view '{name}'")


def compare(store: ViewStore, expected: DataFrame, spark: SparkSession, name: str) -> Audit:
    """The newest state of a table against rows (numbered columns, and how often each is expected)."""
    head = store.head
    columns = _numbered(len(store.schema))
    stored = store.read(spark, AsOf(version=head.version), counted=True).toDF(*columns, _COUNT)
    types = {column: str(type_) for column, type_ in zip(columns, store.schema.types, strict=True)}
    fitted = [F.col(column).cast(types[column]).alias(column) for column in columns]
    wanted = expected.select(*fitted, _EXPECTED)
    both = stored.withColumn(_EXPECTED, F.lit(0)).unionByName(wanted.withColumn(_COUNT, F.lit(0)))
    sums = both.groupBy(*columns).agg(F.sum(_COUNT).alias(_COUNT), F.sum(_EXPECTED).alias(_EXPECTED))
    off = sums.withColumn("off", F.col(_COUNT) - F.greatest(F.col(_EXPECTED), F.lit(0)))
    totals = off.agg(
        F.sum(_COUNT), F.sum(F.greatest(-F.col("off"), F.lit(0))), F.sum(F.greatest(F.col("off"), F.lit(0)))
    ).first()
    rows, missing, extra = (int(value or 0) for value in totals or (0, 0, 0))
    samples = _samples(off, store) if missing or extra else []
    return Audit(name, dict(head.positions), rows, missing, extra, samples)


def _samples(off: DataFrame, store: ViewStore) -> list[dict[str, Any]]:
    wrong = off.where(F.col("off") != 0).limit(_SAMPLES).collect()
    names = store.schema.names
    return [{"too many": int(row["off"]), "row": dict(zip(names, row[: len(names)], strict=True))} for row in wrong]


def _numbered(count: int) -> list[str]:
    return [f"c{at}" for at in range(count)]


