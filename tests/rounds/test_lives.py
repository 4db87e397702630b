"""The lives of units and channels: every event in every state, allowed as the table says or refused."""

from __future__ import annotations

from typing import Any

import pytest

from weir.algebra.errors import WeirError
from weir.life import CannotHappen, Life, LifeTable
from weir.rounds import channels, units
from weir.rounds.channels import Channel
from weir.rounds.units import Unit

TABLES = {"unit": units.LIFE, "channel": channels.LIFE}
CASES = [
    (name, state, event)
    for name, table in TABLES.items()
    for state in table
    for event in sorted({event for row in table.values() for event in row})
]


@pytest.mark.parametrize(("name", "state", "event"), CASES)
def test_every_event_in_every_state(name: str, state: str, event: str) -> None:
    """It leads where the table says, to a state of the table; what the table lacks is refused and moves nothing."""
    table: LifeTable = TABLES[name]
    life = Life(table, state)
    if event in table[state]:
        life.happens(event)
        assert life.state == table[state][event]
        assert life.state in table
    else:
        with pytest.raises(CannotHappen, match=f"'{event}' cannot happen to what is {state}"):
            life.happens(event)
        assert life.state == state


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached(name: str) -> None:
    """From the first one on; nothing in the table is dead."""
    table, seen = TABLES[name], set[str]()
    front = [next(iter(table))]
    while front:
        state = front.pop()
        if state not in seen:
            seen.add(state)
            front += table[state].values()
    assert seen == table.keys()


class _View:
    """As much of a view as a unit's life touches."""

    class view:  # noqa: N801
        sources = ("s",)

    store, loaded, name = None, False, "v"

    def stop(self) -> None: ...


def unit() -> Unit:
    view: Any = _View()
    return Unit("v", [view])


def test_a_unit_that_failed_stays_so() -> None:
    """A write that comes to grief afterwards does not bring it back as one that waits."""
    failed = unit()
    failed.stop(WeirError("its table is another one's"))
    failed.interrupt("could not be written")
    assert (failed.state, failed.problem) == (units.FAILED, "its table is another one's")


def test_a_unit_waits_and_is_revived() -> None:
    """With nothing in memory and no table it has to be loaded."""
    waiting = unit()
    waiting.interrupt("waits for source s: gone", pause=5.0)
    assert (waiting.state, waiting.problem) == (units.WAITING, "waits for source s: gone")
    waiting.revive()
    assert waiting.state == units.NEW
    with pytest.raises(CannotHappen):
        waiting.revive()


class _Spec:
    name, kind, place = "s", "sqlite", "somewhere"


def channel() -> Channel:
    spec: Any = _Spec()
    return Channel(spec)


def test_a_channel_that_is_down_is_tried_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.4, 0.8, 1.6 seconds and so on, at most half a minute; once it is opened nothing is remembered."""
    now = 1000.0
    monkeypatch.setattr("weir.rounds.channels.time.monotonic", lambda: now)
    one, pauses = channel(), []
    for _ in range(10):
        one.fail(WeirError("gone"))
        pauses.append(round(one._retry_at - now, 3))
    assert pauses == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0]
    assert not one.may_be_tried
    now += 31
    assert one.may_be_tried
    one.opened()
    assert (one.followed, one.problem) == (True, None)
    one.fail(WeirError("gone again"))
    assert round(one._retry_at - now, 3) == 0.4
    one.close()


def test_a_channel_that_is_given_up_is_not_down() -> None:
    """A log that does not reach back is the views' trouble; the source itself can be reached."""
    one = channel()
    one.opened()
    one.give_up()
    assert (one.followed, one.problem, one.may_be_tried) == (False, None, True)
    one.close()
