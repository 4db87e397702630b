"""The frame: every way after every batch, in turns, compared in the end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bench.product.tpch.worlds import Here
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.bench.product.tpch import places, report
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.floor import Floor
from weir.bench.product.tpch.places import TpchDatabase, addresses, open_places
from weir.bench.product.tpch.recompute import RecomputedView
from weir.bench.product.tpch.run import FLOOR, RECOMPUTE, WEIR, Opening, TpchOutcome, TpchPlan, measure
from weir.bench.product.tpch.turn import Turn
from weir.bench.product.tpch.weir_way import MaintainedFacts
from weir.proving.databases import PrivateDatabase, Servers
from weir.warehouse.store import ViewStore

SCHEMA = Schema.parse(
    "l_orderkey bigint, l_linenumber int, l_quantity decimal(15,2), l_extendedprice decimal(15,2), "
    "l_discount decimal(15,2), l_shipdate date, o_orderdate date, o_orderpriority string, c_custkey bigint, "
    "c_name string, c_mktsegment string, c_acctbal decimal(15,2), n_name string, p_partkey bigint, p_name string, "
    "p_brand string, p_retailprice decimal(15,2)"
)
TINY = TpchPlan(scale=0.001, sources="sqlite", sizes=(1, 40), repeats=2, warmups=0)


class Reloaded:
    """A maintained view by brute force: recomputed into a real view store, for as many batches as it is told to."""

    def __init__(self, spark: SparkSession, places: Mapping[str, TpchDatabase], folder: Path, batches: int) -> None:
        self.source = RecomputedView(spark, addresses(places), folder / "unused", {"lineitem": 2})
        self.path = str(folder / "view")
        self.store = ViewStore.create(self.path, SCHEMA)
        self.left, self.turn = batches, 0

    def begin(self) -> float:
        self._load()
        return 1.0

    def caught_up(self) -> Turn:
        if self.left:
            self.left -= 1
            self._load()
        return Turn(100.0, 5, 10, 20, self.turn)

    def audit(self) -> int:
        return 0

    def facts(self) -> MaintainedFacts:
        return MaintainedFacts(self.path, 1000, "by hand")

    def close(self) -> None:
        """Nothing is open."""

    def _load(self) -> None:
        self.turn += 1
        self.store.load(self.source.joined(), {"all": self.turn}, (self.turn, self.turn), self.turn)


def ways(spark: SparkSession, batches: int) -> Opening:
    def open_ways(plan: TpchPlan, places: Mapping[str, TpchDatabase], folder: Path) -> dict[str, Here]:
        where = addresses(places)
        return {
            WEIR: Here(Reloaded(spark, places, folder, batches)),
            FLOOR: Here(Floor(where, folder / "floor")),
            RECOMPUTE: Here(RecomputedView(spark, where, folder / "recompute", {"lineitem": 2})),
        }

    return open_ways


@pytest.fixture(scope="module")
def outcome(spark: SparkSession) -> TpchOutcome:
    """A view that takes in three of four batches."""
    return measure(TINY, ways(spark, batches=3))


def test_every_way_goes_after_every_batch(outcome: TpchOutcome) -> None:
    """In an order that changes from batch to batch; as many samples as repeats."""
    order = [sample.way for sample in outcome.samples]
    assert order == [WEIR, FLOOR, RECOMPUTE, FLOOR, RECOMPUTE, WEIR, RECOMPUTE, WEIR, FLOOR, WEIR, FLOOR, RECOMPUTE]
    assert [len(outcome.turns(way, size)) for way in (WEIR, FLOOR, RECOMPUTE) for size in (1, 40)] == [2] * 6
    assert {sample.changes: sample.transactions for sample in outcome.samples}[1] == 1


def test_differences_are_found_where_they_are(outcome: TpchOutcome) -> None:
    """None after the batch that was taken in, some after the one that was not."""
    assert outcome.differences[1] == 0
    assert outcome.differences[40] > 0
    assert not report.exact([outcome])


def test_the_floor_is_off(outcome: TpchOutcome) -> None:
    """Its own table is compared too."""
    assert outcome.floor_differences > 0


def test_facts_of_the_run(outcome: TpchOutcome) -> None:
    """Sizes of the base tables, memory of this process and of Spark's."""
    assert outcome.base_rows["lineitem"] == 6005
    assert outcome.base_stored > outcome.base_parquet > 100_000
    assert outcome.memory[RECOMPUTE].driver > 10_000_000
    assert outcome.memory[RECOMPUTE].jvm > 100_000_000


def test_the_document(outcome: TpchOutcome) -> None:
    """One row per batch size, with the promised names."""
    found = report.document([outcome])
    assert [row["changes"] for row in found["rows"]] == [1, 40]
    assert {"weir_ms", "recompute_ms", "floor_ms", "differences", "changes_per_second"} <= set(found["rows"][0])
    (run,) = found["runs"]
    assert (run["stored_bytes"], run["strategy"], run["audit"]) == (1000, "by hand", 0)
    assert run["peak_memory"][FLOOR]["driver"] > 0


def test_unknown_sources_are_named() -> None:
    """With those that there are."""
    with pytest.raises(WeirError, match="unknown sources 'oracle': use one of sqlite, postgres, mariadb, mixed"):
        measure(TpchPlan(scale=0.001, sources="oracle"), lambda plan, places, folder: {})


def test_a_place_that_fails_to_start_leaves_nothing(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources before it are closed again, their files gone."""
    made: list[Servers] = []

    class Fails(Servers):
        def open(self, kind: str, name: str, *more: Any) -> PrivateDatabase:
            made.append(self)
            if name == "catalog":
                assert made[0].folder.exists()
                raise WeirError("no room")
            return super().open(kind, name, *more)

    monkeypatch.setattr(places, "Servers", Fails)
    with pytest.raises(WeirError, match="no room"), open_places("sqlite", data):
        pass
    assert len(made) == 3
    assert not any(servers.folder.exists() or servers.variable in os.environ for servers in made[:2])
