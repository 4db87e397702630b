"""The registry: 24 algorithms, each in a file of its own that says what it is; views without what they need."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from weir.algorithms.base import KEYS, SCENARIOS, NeedNotMet
from weir.algorithms.measured import measured
from weir.algorithms.registry import ALGORITHMS
from weir.consistency.levels import NAMES
from weir.simulator.builtin import find
from weir.simulator.scenario import parse, write


def test_each_algorithm_is_a_file_with_its_theory_on_top() -> None:
    """24 numbers, 24 names, 24 files; each names its paper and the level it promises before the first line of code."""
    assert [cls.facts.number for cls in ALGORITHMS.values()] == list(range(1, 25))
    files = {str(sys.modules[cls.__module__].__file__) for cls in ALGORITHMS.values()}
    assert len(files) == 24
    for file in files:
        theory = Path(file).read_text(encoding="utf-8").split('"""')[1]
        assert re.search(r"^Papers?: ", theory, re.MULTILINE), file
        assert re.search(r"[Pp]romise", theory), file


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_known_of_it_is_whole(name: str) -> None:
    """Paper, messages, and a measured level for every scenario; only the control promises nothing."""
    facts = ALGORITHMS[name].facts
    assert facts.paper
    assert facts.messages
    assert set(measured()[name]) == set(SCENARIOS)
    assert {*measured()[name].values(), *facts.claims.values()} <= set(NAMES)
    assert bool(facts.claims) == (name != "basic")


@pytest.mark.parametrize("name", [name for name, cls in ALGORITHMS.items() if KEYS in cls.facts.needs])
def test_whoever_needs_keys_refuses_a_view_without(name: str) -> None:
    """Before anything runs, with the table and what would make it possible."""
    document = tomllib.loads(write(find("strobe_example_4"))) | {"schedules": [], "expect": {}}
    document["tables"] = {"x.r1": {"columns": "A int, B int", "rows": "(1, 2)"}}
    with pytest.raises(NeedNotMet, match=rf"by {name}: .*table x\.r1 has no key; declare one at the source, or use"):
        parse(document).begin(ALGORITHMS[name])
