"""``weir bench ring``: latencies in virtual time, exactly, and a reason wherever the paper has another figure."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from weir.bench.papers.ring import NODES, measure, picture
from weir.cli.bench import bench_app


def test_the_rings_figures_are_the_papers() -> None:
    """2n units in the worst case at whole ticks, and 2 per update when all are updated."""
    rows = {(row.case, row.nodes): row for row in measure()}
    for n in NODES:
        assert rows["ring, one node updated, worst tick", n].measured == 2 * n
        assert rows["ring, all updated, per update", n].measured == 2


def test_the_stars_figures_are_the_papers_in_visits_not_in_time() -> None:
    """n visits for one node and 2n - 1 for all; in time 2n + 1 and 4n - 1."""
    rows = {(row.case, row.nodes): row for row in measure()}
    for n in NODES:
        assert rows["star, one node updated, visits", n].measured == n
        assert rows["star, one node updated, time", n].measured == 2 * n + 1
        assert rows["star, all updated, visits per update", n].measured * n == 2 * n - 1
        assert rows["star, all updated, time per update", n].measured * n == 4 * n - 1


def test_every_difference_is_explained() -> None:
    """And nothing else is."""
    assert all((row.measured != row.formula) == bool(row.explained) for row in measure([2, 5]))


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    """All cases in one file."""
    text = picture(measure([2, 3]), tmp_path).read_text()
    assert "star, all, time per update" in text


def test_the_command_prints_json_rows() -> None:
    """One row per case and number of nodes."""
    result = CliRunner().invoke(bench_app, ["ring", "--json"])
    rows = json.loads(result.stdout)["rows"]
    assert rows[0].keys() == {"case", "nodes", "formula", "measured", "explained"}
    assert {row["nodes"] for row in rows} == set(NODES)
