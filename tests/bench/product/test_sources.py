"""``weir bench sources``: every kind is measured on a real database, and the document has the promised shape."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from weir.bench.product import sources
from weir.bench.product.source_labs import COLUMNS, MEASURED, NEEDED, rows
from weir.bench.product.sources import LookupCost, Result, SourceSizes, Spent
from weir.cli.main import app

TINY = SourceSizes(500, 100, 1, 3, 0.2, (1, 100), (2, 2))


@pytest.mark.parametrize("kind", MEASURED)
def test_every_kind_is_measured(kind: str) -> None:
    """Ours and the bare driver find the same number of rows (checked inside), and all figures are positive."""
    (result,) = sources.measure([kind], TINY)
    assert result.kind == kind
    assert [cost.keys for cost in result.lookups] == [1, 100]
    figures = [result.idle.wall, result.loaded.wall, result.changes_per_second, result.loaded_transactions_per_second]
    assert min(figures + [cost.ratio for cost in result.lookups]) > 0


def test_the_command_prints_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """With sizes, targets, and per kind what was measured and whether the targets hold."""
    monkeypatch.setattr(sources, "QUICK", TINY)
    result = CliRunner().invoke(app, ["bench", "sources", "--kind", "sqlite", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["targets"] == {"ratio_at_most": 1.5, "changes_per_second_at_least": 20_000}
    (kind,) = document["kinds"]
    assert {"kind", "idle", "loaded", "changes_per_second", "lookups", "holds"} <= set(kind)
    assert {"keys", "ours", "bare", "ratio", "cpu_ratio", "lookups_per_second"} == set(kind["lookups"][0])


def test_an_unknown_kind_is_named() -> None:
    """With those that there are."""
    result = CliRunner().invoke(app, ["bench", "sources", "--kind", "files"])
    assert result.exit_code == 2
    assert "use one of sqlite, postgres, postgres-triggers, mariadb" in result.stderr


def test_targets_are_judged() -> None:
    """A kind that is too slow or costs too much beside the bare driver is named."""

    def result(changes: float, ours: float) -> Result:
        cost = LookupCost(10_000, Spent(ours, 1), Spent(10, 1))
        return Result("x", Spent(1, 1), Spent(1, 1), 1, changes, changes, (cost,))

    assert sources.notes([result(20_000, 15)]) == []
    assert len(sources.notes([result(19_999, 15), result(20_000, 15.1)])) == 2


def test_rows_are_wide_and_keys_are_unique() -> None:
    """Sixteen columns of which some are needed; every key leads to one row."""
    made = list(rows(100))
    assert {len(row) for row in made} == {len(COLUMNS)} == {16}
    assert len(NEEDED) < 16
    assert len({row[11] for row in made}) == 100
