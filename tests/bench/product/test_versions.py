"""``weir bench versions``."""

from __future__ import annotations

from weir.bench.product import versions


def test_a_life_is_measured_at_its_marks() -> None:
    """The table has as many rows as before, and every figure is there."""
    told: list[str] = []
    ages = versions.measure((12, 24), told.append)
    assert [age.versions for age in ages] == [12, 24]
    assert all(min(age.open, age.read, age.others_read, age.commit, age.log_files, age.bytes) > 0 for age in ages)
    assert len(told) == 2
    document = versions.document(ages)
    assert document["against_the_first"]["commit"][0] == 1
    assert versions.table(ages).row_count == 2
