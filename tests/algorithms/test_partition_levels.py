"""Every schedule of small scenarios: the partition algorithms hold their promise, and parallel no more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.algorithms.partition_worlds import CHAIN_3, CHAIN_4, SELF_JOIN, TWO_TERMS, scenario
from weir.algorithms.registry import algorithm
from weir.consistency.levels import NAMES
from weir.simulator.explore import every_schedule
from weir.simulator.scenario import Scenario

ROWS = {"x.r1": "(1, 2) (4, 2)", "y.r2": "(2, 3)", "z.r3": "(3, 4) (5, 6)", "z.r4": "(4, 7)"}
SCENARIOS: dict[str, Scenario] = {
    "inserts": scenario(CHAIN_3, ROWS, ("x", "+r1(7, 2)"), ("y", "+r2(2, 5)"), ("z", "+r3(3, 9)")),
    "deletes": scenario(
        CHAIN_3, ROWS, ("x", "-r1(1, 2)"), ("y", "-r2(2, 3)"), ("z", "-r3(3, 4)"), ("y", "+r2(2, 3)")
    ),
    "modifications": scenario(
        CHAIN_3, ROWS, ("x", "-r1(1, 2) +r1(1, 8)"), ("y", "-r2(2, 3) +r2(8, 3)"), ("z", "-r3(3, 4) +r3(3, 1)")
    ),
    "transactions over two groups": scenario(
        CHAIN_4, ROWS,
        ("z", "-r3(3, 4) +r4(6, 8)"), ("y", "+r2(2, 5)"), ("z", "+r3(3, 4) -r4(4, 7)"), ("x", "-r1(4, 2)"),
    ),
    "self-join": scenario(
        SELF_JOIN, {"x.r1": "(2, 2)", "y.r2": "(2, 3)"},
        ("y", "+r2(2, 5)"), ("x", "+r1(5, 2)"), ("y", "-r2(2, 3) +r2(5, 1)"),
    ),
    "two terms": scenario(TWO_TERMS, ROWS, ("z", "-r3(3, 4) +r4(6, 6)"), ("y", "-r2(2, 3)"), ("y", "+r2(2, 5)")),
}  # fmt: skip
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("equal-partition", {"size": 1}),
    ("equal-partition", {"size": 2}),
    ("equal-partition", {"size": 3}),
    ("frequency-partition", {"frequencies": {"x.r1": 1, "y.r2": 9}}),
    ("frequency-partition", {"groups": 3, "repartition_after": 1}),
    ("frequency-partition", {"groups": 2, "repartition_after": 1, "split_unjoined": False}),
    ("frequency-partition", {"groups": 3, "repartition_after": 2}),
    ("parallel-partition", {}),
    ("parallel-partition", {"groups": 3, "repartition_after": 1}),
    ("parallel-partition", {"groups": 3, "repartition_after": 2}),
    ("parallel-partition", {"one_by_one": True}),
    ("keyed-partition", {}),
    ("keyed-partition", {"groups": 1}),
    ("keyed-partition", {"groups": 3, "hot": 3, "repartition_after": 1}),
]


def promised(name: str, options: dict[str, Any]) -> str:
    return "complete" if options.get("one_by_one") else algorithm(name).facts.claims["source-local"]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda value: str(value))
def test_promised_level_on_every_schedule(name: str, options: dict[str, Any]) -> None:
    """Three sources, three to four updates, every interleaving: the promised level holds, across re-partitions too."""
    kind = algorithm(name)
    for title, small in SCENARIOS.items():
        found = every_schedule(small, lambda small=small: small.begin(kind, **options))  # type: ignore[misc]
        print(f"{name} {options} {title}: {found.held}, {found.schedules:,} schedules, {found.states:,} states")
        assert NAMES.index(found.held) >= NAMES.index(promised(name, options)), title


def test_one_source_holds_all_tables() -> None:
    """With a single source, too, all four hold their claims on every schedule."""
    data = scenario(CHAIN_4, ROWS, ("z", "-r3(3, 4) +r4(6, 8)"), ("z", "+r3(3, 4)"), ("z", "-r4(4, 7) +r3(3, 6)"))
    for name in ("equal-partition", "frequency-partition", "parallel-partition", "keyed-partition"):
        found = every_schedule(data, lambda name=name: data.begin(algorithm(name)))  # type: ignore[misc]
        assert NAMES.index(found.held) >= NAMES.index(algorithm(name).facts.claims["single-source"])


def test_parallel_groups_skip_states() -> None:
    """Groups that finish out of order are shown together: strong, a schedule breaks complete. One by one holds it."""
    kind = algorithm("parallel-partition")
    together = scenario(CHAIN_3, ROWS, ("x", "+r1(7, 2)"), ("z", "+r3(3, 9)"))
    found = every_schedule(together, lambda: together.begin(kind))
    breaking = found.counterexample("complete")
    assert found.held == "strong"
    assert breaking is not None
    assert [str(step) for step in breaking] == ["U1", "deliver x", "answer y", "U2", "deliver z", "deliver y"]
    assert every_schedule(together, lambda: together.begin(kind, one_by_one=True)).held == "complete"


def test_the_level_is_lost_without_compensation_while_regrouping(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: new auxiliary views as the sources answer, waiting updates left in, are not even convergent."""
    kind = algorithm("frequency-partition")
    small = SCENARIOS["inserts"]
    options: dict[str, Any] = {"groups": 3, "repartition_after": 1}
    monkeypatch.setattr("weir.algorithms.regrouping._without_waiting", lambda term, slot, reply: reply.bags[0])
    found = every_schedule(small, lambda: small.begin(kind, **options))
    assert found.held == "none"
