"""``docs/reliability.md`` prints the tables that the rounds go by and that the fault matrix is made from."""

from __future__ import annotations

from pathlib import Path

from tests.faults.matrix import MATRIX, matrix_table, rules_table
from weir.rounds import supervision

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_the_page_prints_both_tables() -> None:
    page = PAGE.read_text()
    assert rules_table() in page, rules_table()
    assert matrix_table() in page, matrix_table()


def test_every_fault_but_a_views_own_is_in_the_matrix() -> None:
    """What a view cannot compute is no fault of a part; tests of its own are about that."""
    covered = {fault.rule for fault in MATRIX}
    assert set(supervision.RULES) - covered == {supervision.VIEW_CANNOT}
