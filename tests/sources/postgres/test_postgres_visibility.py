"""Snapshots as sets of transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.sources.postgres.position import PostgresPosition, lsn_number, lsn_text
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import SourceError


@st.composite
def snapshots(draw: st.DrawFn) -> PostgresSnapshot:
    xmin = draw(st.integers(1, 20))
    xmax = draw(st.integers(xmin, 24))
    running = draw(st.sets(st.integers(xmin, xmax - 1))) if xmax > xmin else set()
    return PostgresSnapshot(min(running, default=xmax), xmax, tuple(sorted(running)))


def shown(snapshot: PostgresSnapshot) -> set[int]:
    return {xid for xid in range(40) if snapshot.shows(xid)}


@given(snapshots())
def test_text_comes_back(snapshot: PostgresSnapshot) -> None:
    """A snapshot survives being written and read."""
    assert PostgresSnapshot.parse(str(snapshot)) == snapshot


@given(snapshots(), snapshots())
def test_shows_all_of_is_inclusion(one: PostgresSnapshot, other: PostgresSnapshot) -> None:
    """``shows_all_of`` is inclusion of the shown sets."""
    assert one.shows_all_of(other) == (shown(other) <= shown(one))


@given(snapshots(), snapshots())
def test_news_is_difference(one: PostgresSnapshot, other: PostgresSnapshot) -> None:
    """``news`` is the difference of the shown sets, for a later snapshot."""
    if one.shows_all_of(other):
        assert one.news(other) == shown(one) - shown(other)


def test_news_gives_up_when_there_are_many() -> None:
    """It is a cheap test for quiet, not a list of everything."""
    assert PostgresSnapshot(10**6, 10**6).news(PostgresSnapshot(10, 10)) is None


@given(st.integers(2**31, 2**40), st.integers(-(2**31) + 1, 2**31 - 1))
def test_ids_are_widened_across_epochs(xmax: int, offset: int) -> None:
    """Any id within 2^31 of xmax is told by its lower 32 bits."""
    assert PostgresSnapshot(xmax, xmax).widen((xmax + offset) % 2**32) == xmax + offset


@pytest.mark.parametrize("text", ["", "1:2", "1:2:x", "1:2:3;DROP TABLE t", "1:2:3,", " 1:2:"])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    """Only digits, colons and commas, in their place."""
    with pytest.raises(ValueError, match="not a snapshot"):
        PostgresSnapshot.parse(text)


def test_position_comes_back() -> None:
    """A position is opaque text to everybody else, and complete to us."""
    position = PostgresPosition(PostgresSnapshot.parse("3:9:3,5"), lsn_number("A/10"), "1/2", {"t": {"oid": 1}})
    assert PostgresPosition.parse(str(position), "pg") == position
    assert lsn_text(position.bound) == "A/10"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"snapshot": "x"}', "12"])
def test_a_foreign_position_is_refused(text: str) -> None:
    """A position of another kind of source is not misread."""
    with pytest.raises(SourceError, match="not a position"):
        PostgresPosition.parse(text, "pg")
