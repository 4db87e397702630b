"""Three sources and four updates, every schedule: each claim over several sources, on two scenarios of that size.

The spectrum goes through smaller scenarios first, and its budget of states may be spent before it gets here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

import pytest

from weir.algorithms.base import SINGLE_SOURCE
from weir.algorithms.registry import ALGORITHMS
from weir.consistency.levels import NAMES
from weir.simulator.cases import Size, generated
from weir.simulator.explore import Exploration, TooManyStates, every_schedule
from weir.simulator.spectrum import EXPLAINED

CLAIMS = [(name, kind) for name, cls in ALGORITHMS.items() for kind in cls.facts.claims if kind != SINGLE_SOURCE]
MANY = Size(scenarios=40, sources=3, tables=3, updates=4)
MOST_STATES = 6_000


def explored(name: str, kind: str) -> list[Exploration]:
    """Every schedule of the first two scenarios of exactly that size that have not too many of them."""
    algorithm = ALGORITHMS[name]
    sized = (s for s in generated(kind, algorithm, MANY, seed=0) if len(s.updates) == 4 and len(s.view.sources) == 3)

    def small_enough() -> Iterator[Exploration]:
        for scenario in sized:
            with suppress(TooManyStates):
                yield every_schedule(scenario, partial(scenario.begin, algorithm), MOST_STATES)

    return list(islice(small_enough(), 2))


@pytest.mark.parametrize(("name", "kind"), CLAIMS)
def test_the_claim_holds_on_every_schedule(name: str, kind: str) -> None:
    """No less than the paper's level; T-Strobe over global transactions as docs/spectrum.md explains."""
    floor = "convergence" if (name, kind) in EXPLAINED else ALGORITHMS[name].facts.claims[kind]
    found = explored(name, kind)
    assert len(found) == 2
    for one in found:
        print(f"{name}, {one.scenario.title}: {one.held}, {one.schedules:,} schedules, {one.states:,} states")
        assert NAMES.index(one.held) >= NAMES.index(floor)
