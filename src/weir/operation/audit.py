"""The online audit: a view compared, row by row, with its definition over the sources at one known vector.

It takes part in a round. The round holds one snapshot per source; its transactions bring the view to exactly the vector
of those snapshots. So the definition is evaluated over the whole tables as the snapshots show them, and compared with
the view as of the round's end, while the sources go on.

**An independent witness.** What is compared with is the user's own SQL (``own_words``), given to Spark over the tables
as temporary views: not the normal form, not the evaluator, not a cast of ours. The tables' rows come from the plain
drivers, by no decoder that load, changes or lookups use (``weir.sources.plain``); only -0.0 is made 0.0, as everywhere
in Weir. The view's rows are read as its readers read them, and compared without a cast: a column of another type than
Spark gives it is a difference of its own.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.quoting import backquoted
from weir.algebra.view import View
from weir.messages import Position
from weir.operation.own_words import query_in_own_words
from weir.rounds.audits import AuditRequest
from weir.rounds.engine import Engine
from weir.rounds.loading import Frames
from weir.rounds.units import RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.scratch import private_subfolder
from weir.spark.frame_bag import without_minus_zero
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

RoundTurn = AbstractContextManager[Any]  # whoever makes a round is inside
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
    types: dict[str, str] = field(default_factory=dict)  # columns of another type than the definition gives them
    samples: list[dict[str, Any]] = field(default_factory=list)  # some of the wrong rows, with how many are too many

    @property
    def clean(self) -> bool:
        """Nothing is missing, nothing too much, and every column has its type."""
        return not (self.missing or self.extra or self.types)

    def document(self) -> dict[str, Any]:
        """What ``--json`` prints; without samples and types where there are none."""
        return {key: value for key, value in asdict(self).items() if value or key not in ("samples", "types")}

    def __str__(self) -> str:
        found = f"view {self.view}: {self.rows} rows, {self.missing} missing, {self.extra} extra"
        lines = [f"  column {name}: {wrong}" for name, wrong in self.types.items()]
        lines += [f"  {row['too many']:+d} {json.dumps(row['row'], default=str)}" for row in self.samples]
        return "\n".join([found, *lines])


class NotAudited(WeirError):
    """Some views could not be audited. ``found``: the audits of the others."""

    def __init__(self, problems: Mapping[str, str], found: Sequence[Audit]) -> None:
        super().__init__("; ".join(f"view {name} cannot be audited now: {why}" for name, why in problems.items()))
        self.problems, self.found = problems, found


def audited(engine: Engine, names: Sequence[str], turn: RoundTurn) -> tuple[list[Audit], dict[str, str]]:
    """The audits of these views, and why there is none of some. Rounds are made until all are compared, each with the
    turn taken: others may make rounds meanwhile.
    """
    folder = private_subfolder(Path(engine.settings.scratch) / f"audit-{uuid.uuid4().hex}")
    expected: dict[str, Path] = {}
    try:

        def keep(view: MaintainedView, tables: Frames) -> None:
            """While the snapshots are held: afterwards the tables have moved on."""
            path = folder / view.name
            with value_by_definition(engine.spark, view.view, tables) as value:
                value.toDF(*_numbered(len(value.columns))).write.parquet(path.as_uri())
            expected[view.name] = path

        with _standing_still(engine, AuditRequest(frozenset(names), keep), turn) as request:
            found: list[Audit] = []
            problems: dict[str, str] = {}
            for name in names:
                try:
                    found.append(_compared(engine, name, expected, request))
                except WeirError as problem:
                    problems[name] = str(problem)
            return found, problems
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _standing_still(engine: Engine, request: AuditRequest, turn: RoundTurn) -> Iterator[AuditRequest]:
    """Inside, the request's views are where the tables were taken."""
    with turn:
        engine.audits.requests.append(request)
    try:
        while not engine.has_audited(request):
            with turn:
                if engine.ended:
                    raise WeirError("the warehouse's run has ended during the audit; ask again")
                engine.round()
            time.sleep(engine.settings.poll)
        yield request
    finally:
        with turn:
            engine.audits.requests.remove(request)


def _compared(engine: Engine, name: str, expected: Mapping[str, Path], request: AuditRequest) -> Audit:
    unit, view = _find(engine, name)
    if name in request.problems:
        raise WeirError(str(request.problems[name]))
    if name not in expected or unit.state != RUNNING:
        raise WeirError(unit.problem or _silence(engine, unit) or f"it is {unit.state}")
    if unit.holds_back:
        raise WeirError("a transaction with parts at several sources is not complete; try again")
    assert view.store is not None
    view.store.check()
    rows = engine.spark.read.parquet(expected[name].as_uri())
    return compare(view.store, rows, engine.spark, name)


def _silence(engine: Engine, unit: Unit) -> str:
    return next((engine.channels[name].awaited for name in unit.sources if engine.channels[name].silent), "")


def _find(engine: Engine, name: str) -> tuple[Unit, MaintainedView]:
    for unit in engine.units:
        for view in unit.views:
            if view.name == name:
                return unit, view
    raise WeirError(f"there is no view '{name}'")


@contextmanager
def value_by_definition(spark: SparkSession, view: View, tables: Frames) -> Iterator[DataFrame]:
    """What Spark makes of the user's own text over these tables, while they are there."""
    names = {relation: f"weir_audit_{uuid.uuid4().hex}" for relation in view.needed}
    for relation, columns in view.needed.items():
        rows = tables[relation].select(*map(backquoted, columns.names))
        without_minus_zero(rows).createOrReplaceTempView(names[relation])
    try:
        yield spark.sql(query_in_own_words(view.text, lambda spelled: names[_meant(spelled, names)]))
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def _meant(spelled: Relation, known: Iterable[Relation]) -> Relation:
    """The table of this name: spelled just so, or else but for upper and lower case."""
    folded = str(spelled).lower()
    return next((one for one in known if one == spelled), None) or next(
        one for one in known if str(one).lower() == folded
    )


def compare(store: ViewStore, expected: DataFrame, spark: SparkSession, name: str) -> Audit:
    """The newest state of a table against the rows that it should have (numbered columns)."""
    head = store.head
    columns = _numbered(len(store.schema))
    stored = store.read(spark, AsOf(version=head.version), counted=True).toDF(*columns, _COUNT)
    types = _unlike_types(store, stored, expected)
    there = stored.select(*columns, F.col(_COUNT), F.lit(0).cast("bigint").alias(_EXPECTED))
    wanted = expected.select(*columns, F.lit(0).cast("bigint").alias(_COUNT), F.lit(1).cast("bigint").alias(_EXPECTED))
    sums = there.union(wanted).groupBy(*columns).agg(F.sum(_COUNT).alias(_COUNT), F.sum(_EXPECTED).alias(_EXPECTED))
    off = sums.withColumn("off", F.col(_COUNT) - F.col(_EXPECTED))
    totals = off.agg(
        F.sum(_COUNT), F.sum(F.greatest(-F.col("off"), F.lit(0))), F.sum(F.greatest(F.col("off"), F.lit(0)))
    ).first()
    rows, missing, extra = (int(value or 0) for value in totals or (0, 0, 0))
    samples = _samples(off, store) if missing or extra else []
    return Audit(name, dict(head.positions), rows, missing, extra, types, samples)


def _unlike_types(store: ViewStore, stored: DataFrame, expected: DataFrame) -> dict[str, str]:
    """The columns whose types differ, with both."""
    pairs = zip(store.schema.names, stored.schema.fields, expected.schema.fields, strict=False)
    return {
        name: f"{mine.dataType.simpleString()} in the table, {theirs.dataType.simpleString()} by the definition"
        for name, mine, theirs in pairs
        if mine.dataType != theirs.dataType
    }


def _samples(off: DataFrame, store: ViewStore) -> list[dict[str, Any]]:
    wrong = off.where(F.col("off") != 0).limit(_SAMPLES).collect()
    names = store.schema.names
    return [{"too many": int(row["off"]), "row": dict(zip(names, row[: len(names)], strict=True))} for row in wrong]


def _numbered(count: int) -> list[str]:
    return [f"c{at}" for at in range(count)]


