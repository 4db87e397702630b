"""``weir bench explore``: it explores what it says, for algorithms named by the registry."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from weir.algebra.errors import WeirError
from weir.algorithms.registry import ALGORITHMS
from weir.bench.simulator.exploring import ChainSize, chain, explore_one, measure
from weir.cli.bench import bench_app


def test_a_chain_has_its_sources_and_updates() -> None:
    """Three sources with two updates each: six transactions, one relation per source."""
    scenario = chain(ChainSize(3, 2))
    assert scenario.view.sources == ("s1", "s2", "s3")
    assert len(scenario.updates) == 6


def test_every_known_algorithm_can_take_part() -> None:
    """On one source all of them run, and a complete algorithm shows one history only."""
    speeds = {speed.algorithm: speed for speed in measure(tuple(ALGORITHMS), [ChainSize(1, 2)])}
    assert set(speeds) == set(ALGORITHMS)
    assert speeds["lca"].histories == 1
    assert all(speed.states > 0 and speed.schedules > 0 for speed in speeds.values())


def test_an_algorithm_sits_out_what_it_cannot_maintain() -> None:
    """ECA needs one source."""
    assert explore_one(ChainSize(2, 1), "eca") is None
    assert explore_one(ChainSize(2, 1), "copies") is not None


def test_a_wrong_name_or_size_is_told_before_anything_runs() -> None:
    """With the way out."""
    with pytest.raises(WeirError, match="unknown algorithm 'ecca'"):
        measure(["ecca"], [ChainSize(1, 1)])
    with pytest.raises(WeirError, match="such as 3x2"):
        ChainSize.parse("many")


def test_the_command_prints_json_rows() -> None:
    """Counts and rates of each exploration."""
    result = CliRunner().invoke(bench_app, ["explore", "--size", "1x2", "-a", "eca", "--json"])
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["algorithm"], row["scenario"]) == ("eca", "1 source x 2")
    assert row["states_per_second"] > 0
