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


class _Table:
    def __init__(self, **positions: str) -> None:
        self.positions = lambda: positions


class _LoadedView(_View):
    """One that goes on from its table."""

    loaded = True

    def __init__(self, name: str = "v", **positions: str) -> None:
        self.name, self.store = name, _Table(**positions)  # type: ignore[assignment]

    def start(self) -> None: ...

    def settle(self) -> None: ...


def test_a_refused_write_is_told_until_one_succeeds() -> None:
    """Also while it runs again and tries: from outside nothing has become better yet."""
    view: Any = _LoadedView(s="1")
    tried = Unit("v", [view])
    tried.recover()
    assert tried.told == (units.RUNNING, "")
    for _ in range(2):
        tried.interrupt("cannot write to the table", pause=2.0)
        assert tried.told == (units.WAITING, "cannot write to the table")
        tried.revive()
        assert (tried.state, tried.told) == (units.RUNNING, (units.WAITING, "cannot write to the table"))
    tried.commits += 1
    assert tried.told == (units.RUNNING, "")
    tried.interrupt("waits for source s: gone")
    tried.revive()
    assert tried.told == (units.RUNNING, "")


def test_a_transaction_that_is_delivered_again_is_counted_once() -> None:
    """Whether its write had failed, or was still under way when the unit was interrupted."""
    view: Any = _LoadedView(s="1")
    one = Unit("v", [view])
    one.recover()
    one.transactions += 3
    assert (one.written, one.queue) == (0, 3)
    one.interrupt("cannot write to the table", pause=2.0)
    one.revive()
    one.transactions += 3
    one.written = 3
    assert (one.transactions, one.queue) == (3, 0)
    one.transactions += 2
    one.interrupt("waits for source s: gone")
    one.written = 5  # what was under way has been written after all
    assert (one.written, one.queue) == (5, 0)
    one.revive()
    assert (one.transactions, one.written, one.queue) == (5, 5, 0)


def test_views_that_commit_together_stand_together() -> None:
    """A table that was restored alone, or put into the group later, is not taken for one at the leader's positions."""
    views: Any = [_LoadedView("a", s="2"), _LoadedView("b", s="1", other="9")]
    apart = Unit("group g", views)
    with pytest.raises(WeirError, match=r"views a and b commit together, but .*: weir run --reload a$"):
        apart.recover()
    together: Any = [_LoadedView("a", s="2"), _LoadedView("b", s="2", other="9")]
    Unit("group g", together).recover()


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
