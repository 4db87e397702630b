"""What is told of a run: medians, spreads, targets, a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from weir.bench.product.tpch import report
from weir.bench.product.tpch.memory import MemoryUse
from weir.bench.product.tpch.run import FLOOR, RECOMPUTE, WEIR, Sample, TpchOutcome, TpchPlan
from weir.bench.product.tpch.turn import Turn
from weir.bench.product.tpch.weir_way import MaintainedFacts


def outcome(scale: float = 1.0, weir: float = 100.0, floor: float = 80.0, recompute: float = 10_000.0) -> TpchOutcome:
    """Three repeats of every size; the middle one is the median."""
    plan = TpchPlan(scale=scale, repeats=3)
    middles = ((WEIR, weir), (FLOOR, floor), (RECOMPUTE, recompute))
    samples = [
        Sample(way, size, size, Turn(ms * factor, 1, 2_000, 3_000_000))
        for size in plan.sizes
        for way, ms in middles
        for factor in (0.5, 5.0, 1.0)
    ]
    facts = MaintainedFacts("view", 50_000_000, "sweep")
    memory = {way: MemoryUse(1_000_000, 2_000_000, 0) for way, _ in middles}
    differences = dict.fromkeys(plan.sizes, 0)
    sizes = 300_000_000, 900_000_000
    return TpchOutcome(plan, {"part": 7}, *sizes, 5.0, 4.0, samples, differences, 12, 0, facts, memory)


def test_rows_have_medians_and_spreads() -> None:
    """One slow turn moves the spread, not the median."""
    row = report.document([outcome()])["rows"][1]
    assert (row["changes"], row["weir_ms"], row["weir_spread_ms"]) == (100, 100.0, [50.0, 500.0])
    assert (row["against_floor"], row["faster_than_recompute"], row["changes_per_second"]) == (1.25, 100.0, 1000.0)
    assert (row["floor_sent_bytes"], row["floor_received_bytes"]) == (2_000, 3_000_000)


def test_a_first_load_stands_beside_a_first_recomputation() -> None:
    """Both in a Spark that has done nothing before: in the document, and in words."""
    (run,) = report.document([outcome()])["runs"]
    assert (run["load_ms"], run["first_recompute_ms"]) == (5.0, 4.0)
    assert "first load: 5 ms, 1.25 times a first recomputation" in list(report.remarks(outcome()))


def test_targets_that_are_met_are_not_mentioned() -> None:
    """At most 1.5 times the floor at 10,000 changes; 30 and 6 times faster than recomputing; half a second for one."""
    assert report.misses([outcome()]) == []


def test_targets_are_for_scale_1() -> None:
    """Less data is quickly recomputed, and says nothing."""
    assert report.misses([outcome(0.1, recompute=100.0)]) == []


def test_targets_that_are_missed_are_named() -> None:
    """Each with what was found."""
    (slow,) = report.misses([outcome(weir=121.0)])
    assert slow == "scale 1, 10,000 changes: 1.51 times the floor, at most 1.5 wanted"
    near = report.misses([outcome(recompute=590.0)])
    assert near == [
        "scale 1, 100 changes: 5.9 times faster than recomputing, 30 wanted",
        "scale 1, 10,000 changes: 5.9 times faster than recomputing, 6 wanted",
    ]
    late = report.misses([outcome(weir=501.0, floor=500.0, recompute=1e6)])
    assert late == ["scale 1, 1 changes: visible after 501 ms, 500 wanted"]


def test_cost_that_grows_with_the_data_is_named() -> None:
    """From the smallest to the largest scale a batch may cost a little more, not a multiple."""
    assert report.misses([outcome(0.1, weir=70.0), outcome(1.0, weir=100.0)]) == []
    grown = report.misses([outcome(0.1, weir=60.0), outcome(1.0, weir=100.0)])
    assert grown[0] == "1 changes: 1.7 times the cost at the largest scale"
    assert len(grown) == 3


def test_one_difference_is_not_exact() -> None:
    """Whether the comparison or the audit finds it; no audit at all is not exact either."""
    compared, audited, unaudited = outcome(), outcome(), outcome()
    compared.differences[100], audited.audit, unaudited.audit = 1, 1, -1
    assert report.exact([outcome()])
    assert not any(report.exact([outcome(), wrong]) for wrong in (compared, audited, unaudited))


def test_it_can_be_read(tmp_path: Path) -> None:
    """Table, remarks and picture say what there is."""
    console = Console(record=True, width=120)
    console.print(report.table(outcome()))
    text = console.export_text() + "\n".join(report.remarks(outcome()))
    for told in ("100x", "50-500", "50.0 MB, view, index", "300.0 MB as Parquet", "off by 12 rows", "JVM 2.0 MB"):
        assert told in text
    drawn = report.picture([outcome(0.1), outcome(1.0)], tmp_path).read_text()
    assert "recompute, scale 0.1" in drawn
    assert "weir, scale 1" in drawn
