"""Questions per update: p - 1 inside the group, none for deletes by key, and what a change of groups asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.algorithms.partition_worlds import CHAIN_4, Stored, questions_of, scenario
from weir.algebra.memory import MemoryBag
from weir.algorithms.partitioned import Partitioned
from weir.algorithms.registry import algorithm
from weir.messages import Commit
from weir.simulator.clock import Clock
from weir.simulator.world import World

ROWS = {"x.r1": "(1, 2) (4, 2)", "y.r2": "(2, 3)", "z.r3": "(3, 4) (5, 6)", "z.r4": "(4, 7)"}
INSERTS = {"x": "+r1(7, 2)", "y": "+r2(2, 5)", "z": "+r3(3, 9)"}
DELETES = {"x": "-r1(1, 2)", "y": "-r2(2, 3)", "z": "-r4(4, 7)"}


@pytest.mark.parametrize(("size", "questions"), [(1, 0), (2, 1), (4, 3)])
@pytest.mark.parametrize("changes", [*INSERTS.items(), *DELETES.items()])
def test_an_update_asks_the_rest_of_its_group(size: int, questions: int, changes: tuple[str, str]) -> None:
    """p - 1 questions for one update in a group of p tables, whichever table, insert or delete."""
    data = scenario(CHAIN_4, ROWS, changes)
    assert questions_of(data.begin(algorithm("equal-partition"), size=size)) == questions


@pytest.mark.parametrize(
    ("table", "questions"), [(("x", "+r1(7, 2)"), 0), (("y", "+r2(2, 5)"), 2), (("z", "+r4(4, 1)"), 2)]
)
def test_frequent_tables_ask_less(table: tuple[str, str], questions: int) -> None:
    """F_Parti on one hot table of four: no question for it, two for each of the three others."""
    data = scenario(CHAIN_4, ROWS, table)
    options: dict[str, Any] = {"groups": 2, "frequencies": {"x.r1": 9, "y.r2": 1, "z.r3": 1, "z.r4": 1}}
    assert questions_of(data.begin(algorithm("frequency-partition"), **options)) == questions


@pytest.mark.parametrize(
    ("changes", "questions"),
    [
        (("x", "-r1(1, 2)"), 0),
        (("y", "-r2(2, 3)"), 0),
        (("x", "+r1(7, 2)"), 1),
        (("x", "-r1(1, 2) +r1(1, 8)"), 1),
        (("x", "-r1(1, 2) -r1(4, 2)"), 0),
        (("z", "-r4(4, 7)"), 1),
    ],
)
def test_deletes_in_a_hot_group_ask_nobody(changes: tuple[str, str], questions: int) -> None:
    """Keys in the hot group: 0 questions for its deletes; its inserts and the cold group's deletes ask as ever."""
    data = scenario(CHAIN_4, ROWS, changes)
    options: dict[str, Any] = {"frequencies": {"x.r1": 2, "y.r2": 2, "z.r3": 1, "z.r4": 1}}
    assert questions_of(data.begin(algorithm("keyed-partition"), **options)) == questions


def test_frequencies_shift_and_the_groups_follow() -> None:
    """z.r4 turns hot: after three updates it is a group of its own, and its next update asks nobody."""
    data = scenario(CHAIN_4, ROWS, *[("z", f"+r4(4, {value})") for value in range(20, 24)])
    kind = algorithm("frequency-partition")
    before = {"x.r1": 9, "y.r2": 1, "z.r3": 1, "z.r4": 1}
    asked = [questions_of(data.begin(kind, frequencies=before, repartition_after=after)) for after in (None, 3)]
    # 2 questions an update in the group y.r2 + z.r3 + z.r4. New groups: z.r4 alone is read from its source, and of the
    # others x.r1 is at hand while y.r2 and z.r3 are asked for. The fourth update then asks nothing.
    assert asked == [4 * 2, 3 * 2 + 3 + 0]


def test_parallel_groups_stop_for_a_change_of_groups() -> None:
    """With a long queue there is always a group at work; still new groups come after what has begun, not at the end."""
    updates = [("z", f"+r4(4, {value})") if value % 2 else ("x", f"+r1({value}, 2)") for value in range(20, 32)]
    data = scenario(CHAIN_4, ROWS, *updates)
    frequencies = {"x.r1": 2, "y.r2": 2, "z.r3": 1, "z.r4": 1}  # two groups of two
    world = data.begin(algorithm("parallel-partition"), groups=2, frequencies=frequencies, repartition_after=3)
    watch = _ChangeOfGroups(world)
    world.observers = (watch,)
    Clock(world, when={f"U{at}": at / 100 for at in range(1, 13)}).run()
    assert watch.shown_before is not None
    assert 3 <= watch.shown_before <= 6  # what had begun by then: at most one update a group, and those before them


class _ChangeOfGroups(Stored):
    """Notes how many updates had been shown when the groups changed."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        assert isinstance(world.algorithm, Partitioned)
        self.machine, self.before = world.algorithm, set(world.algorithm.content)
        self.shown = 0
        self.shown_before: int | None = None

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        if set(self.machine.content) != self.before and self.shown_before is None:
            self.shown_before = self.shown
        self.shown = sum(position for position in commit.positions.values() if isinstance(position, int))


def test_joining_groups_asks_nobody() -> None:
    """Two hot tables of one group each cool down: their groups are joined here, and only the updates have asked."""
    data = scenario(CHAIN_4, ROWS, ("x", "+r1(7, 2)"), ("y", "+r2(2, 5)"), ("z", "+r3(3, 9)"), ("z", "+r4(4, 1)"))
    frequencies = {"x.r1": 9, "y.r2": 9, "z.r3": 1, "z.r4": 1}
    world = data.begin(algorithm("frequency-partition"), groups=3, frequencies=frequencies, repartition_after=4)
    machine = world.algorithm
    assert isinstance(machine, Partitioned)
    assert list(machine.auxiliary) == ["0:0", "0:1", "0:2+3"]
    assert questions_of(world) == 0 + 0 + 1 + 1
    assert list(machine.auxiliary) == ["0:0+1", "0:2+3"]
