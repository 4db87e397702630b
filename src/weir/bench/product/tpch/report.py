"""What a run found, for programs and for people: a document, tables, remarks, a picture."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table as Grid

from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.bench.product.tpch.run import FLOOR, RECOMPUTE, WAYS, WEIR, TpchOutcome

MOST_AGAINST_FLOOR, LEAST_AGAINST_RECOMPUTE, MOST_MS_OF_ONE = 1.5, {100: 30.0, 10_000: 6.0}, 500.0  # the targets
SCALE = 1.0  # for which those hold: recomputing less data is quicker
MOST_GROWTH = 1.5  # of a batch's cost from one scale to the next: anything near the tenfold data would show


def document(outcomes: Sequence[TpchOutcome]) -> dict[str, Any]:
    """Milliseconds and bytes; ``rows`` has one entry per scale and batch size."""
    machine = {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    rows = [_row(outcome, size) for outcome in outcomes for size in outcome.plan.sizes]
    return {"rows": rows, "runs": [_run(outcome) for outcome in outcomes], "machine": machine}


def _row(outcome: TpchOutcome, size: int) -> dict[str, Any]:
    weir, floor, recompute = (median(outcome, way, size) for way in (WEIR, FLOOR, RECOMPUTE))
    figures = {
        "scale": outcome.plan.scale, "sources": outcome.plan.sources, "changes": size,
        "transactions": max(s.transactions for s in outcome.samples if s.changes == size),
        "weir_ms": round(weir, 1), "recompute_ms": round(recompute, 1), "floor_ms": round(floor, 1),
        "against_floor": round(weir / floor, 2), "faster_than_recompute": round(recompute / weir, 1),
        "changes_per_second": round(size / weir * 1000, 1), "differences": outcome.differences[size],
    }  # fmt: skip
    for way in WAYS:
        turns = outcome.turns(way, size)
        figures |= {
            f"{way}_spread_ms": [round(min(t.ms for t in turns), 1), round(max(t.ms for t in turns), 1)],
            f"{way}_sent_bytes": round(statistics.median(t.sent for t in turns)),
            f"{way}_received_bytes": round(statistics.median(t.received for t in turns)),
        }
    return figures


def _run(outcome: TpchOutcome) -> dict[str, Any]:
    assert outcome.facts is not None
    return {
        "scale": outcome.plan.scale, "sources": outcome.plan.sources, "repeats": outcome.plan.repeats,
        "seed": outcome.plan.seed, "strategy": outcome.facts.strategy, "load_ms": round(outcome.load_ms, 1),
        "first_recompute_ms": round(outcome.first_recompute_ms, 1),
        "base_rows": dict(outcome.base_rows), "base_parquet_bytes": outcome.base_parquet,
        "base_source_bytes": outcome.base_stored, "stored_bytes": outcome.facts.stored, "audit": outcome.audit,
        "floor_differences": outcome.floor_differences,
        "peak_memory": {way: asdict(memory) for way, memory in outcome.memory.items()},
    }  # fmt: skip


def median(outcome: TpchOutcome, way: str, size: int) -> float:
    return statistics.median(turn.ms for turn in outcome.turns(way, size))


def exact(outcomes: Sequence[TpchOutcome]) -> bool:
    """Whether neither comparison nor audit found a difference."""
    return all(outcome.audit == 0 and not any(outcome.differences.values()) for outcome in outcomes)


# -- for people --------------------------------------------------------------------------------------------------------


def table(outcome: TpchOutcome) -> Grid:
    plan = outcome.plan
    grid = Grid(title=f"scale {plan.scale:g}, {plan.sources}: medians of {plan.repeats} in ms, lowest to highest below")
    for heading in ("changes", "weir", "floor", "recompute", "/ floor", "faster", "per s", "wrong"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for size in plan.sizes:
        row = _row(outcome, size)
        shown = (f"{row['against_floor']:.2f}", f"{row['faster_than_recompute']:.0f}x")
        rate, wrong = f"{row['changes_per_second']:,.0f}", f"{row['differences']:,}"
        grid.add_row(f"{size:,}", *(_spread(row, way) for way in (WEIR, FLOOR, RECOMPUTE)), *shown, rate, wrong)
    return grid


def _spread(row: dict[str, Any], way: str) -> str:
    low, high = row[f"{way}_spread_ms"]
    return f"{row[f'{way}_ms']:,.0f}\n{low:,.0f}-{high:,.0f}"


def remarks(outcome: TpchOutcome) -> Iterator[str]:
    """Traffic, memory, storage, exactness."""
    assert outcome.facts is not None
    for size in outcome.plan.sizes:
        row = _row(outcome, size)
        traffic = (f"{way} {_size(row[f'{way}_sent_bytes'])} / {_size(row[f'{way}_received_bytes'])}" for way in WAYS)
        yield f"{size:,} changes, bytes to / from the sources: {', '.join(traffic)}"
    for way, memory in outcome.memory.items():
        parts = f"driver {_size(memory.driver)}, JVM {_size(memory.jvm)}, Python workers {_size(memory.workers)}"
        yield f"peak memory, {way}: {parts}"
    stored, base = outcome.facts.stored, outcome.base_parquet
    yield (
        f"stored: {_size(stored)}, view, index and feed; the base tables are {_size(base)} as Parquet and "
        f"{_size(outcome.base_stored)} in their databases"
    )
    against = outcome.load_ms / outcome.first_recompute_ms
    yield f"first load: {outcome.load_ms:,.0f} ms, {against:.2f} times a first recomputation"
    yield f"audit: {outcome.audit:,} differences; the floor's table is off by {outcome.floor_differences:,} rows"


def misses(outcomes: Sequence[TpchOutcome]) -> list[str]:
    """The targets that were not met."""
    found = []
    for outcome in (each for each in outcomes if each.plan.scale >= SCALE):
        for size in outcome.plan.sizes:
            found += [f"scale {outcome.plan.scale:g}, {size:,} changes: {text}" for text in _missed(outcome, size)]
    for size in outcomes[0].plan.sizes:
        smallest, largest = (median(outcome, WEIR, size) for outcome in (outcomes[0], outcomes[-1]))
        if largest > smallest * MOST_GROWTH:
            found.append(f"{size:,} changes: {largest / smallest:.1f} times the cost at the largest scale")
    return found


def _missed(outcome: TpchOutcome, size: int) -> Iterator[str]:
    weir, floor, recompute = (median(outcome, way, size) for way in (WEIR, FLOOR, RECOMPUTE))
    if size == max(LEAST_AGAINST_RECOMPUTE) and weir > floor * MOST_AGAINST_FLOOR:
        yield f"{weir / floor:.2f} times the floor, at most {MOST_AGAINST_FLOOR} wanted"
    if recompute < weir * LEAST_AGAINST_RECOMPUTE.get(size, 0.0):
        yield f"{recompute / weir:.1f} times faster than recomputing, {LEAST_AGAINST_RECOMPUTE[size]:g} wanted"
    if size == 1 and weir > MOST_MS_OF_ONE:
        yield f"visible after {weir:,.0f} ms, {MOST_MS_OF_ONE:,.0f} wanted"


def shown(outcomes: Sequence[TpchOutcome], drawn: Path) -> Iterator[Grid | str]:
    """What the command prints."""
    for outcome in outcomes:
        yield table(outcome)
        yield "\n".join([*remarks(outcome), ""])
    yield from (f"target missed: {miss}" for miss in misses(outcomes))
    yield f"picture: {drawn}"


def picture(outcomes: Sequence[TpchOutcome], folder: Path) -> Path:
    """Cost against batch size, one curve per way and scale."""
    curves = [_curve(outcome, way) for way in (RECOMPUTE, WEIR, FLOOR) for outcome in outcomes]
    kinds = ", ".join(dict.fromkeys(outcome.plan.sources for outcome in outcomes))
    shown = Picture(
        "From commit at the source to a visible Delta version", "row changes in the batch", "milliseconds (median)",
        curves, f"TPC-H, five tables at three sources ({kinds})", log_x=True, log_y=True,
    )  # fmt: skip
    return draw(shown, folder / "tpch.svg")


def _curve(outcome: TpchOutcome, way: str) -> Curve:
    points = [(float(size), median(outcome, way, size)) for size in outcome.plan.sizes]
    return Curve(f"{way}, scale {outcome.plan.scale:g}", points, points)


def _size(many: float) -> str:
    """
    >>> _size(900), _size(1_500_000), _size(3e9)
    ('900 B', '1.5 MB', '3.0 GB')
    """
    for unit, divisor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if many >= divisor:
            return f"{many / divisor:.1f} {unit}"
    return f"{many:.0f} B"
