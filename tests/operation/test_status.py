"""The status document, where what it is made of is not well."""

from __future__ import annotations

from typing import Any

from weir.operation.status import _arrival
from weir.warehouse.errors import Damaged


class _View:
    """A view whose table was damaged after it was opened."""

    problem = None

    @property
    def last_arrival(self) -> int:
        raise Damaged("the table at '/w/v' is damaged: a commit is empty")


def test_a_table_that_cannot_tell_stops_no_status() -> None:
    """The runner writes its status after every round, and must not end by it."""
    view: Any = _View()
    assert _arrival(view) is None
