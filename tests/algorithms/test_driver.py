"""The driver: arrival numbers, and what of an update an algorithm gets; the same in simulator and runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weir.algebra.memory import MemoryBag
from weir.algebra.types import BIGINT, Column, Schema
from weir.algorithms.driver import Driver
from weir.algorithms.eca import Eca
from weir.algorithms.eca_local import EcaLocal
from weir.algorithms.ring import Ring
from weir.algorithms.sweep import Sweep
from weir.algorithms.sweeping import ARRIVAL, split, sweep, together
from weir.messages import Add, AddSwept, Commit, Run, Swept, Update
from weir.simulator.scenario import Scenario, parse


def scenario() -> Scenario:
    """One source with a table that the view uses, with a selection, and one that it does not."""
    return parse(
        {
            "title": "two tables, one of them in the view",
            "view": "CREATE MATERIALIZED VIEW v AS SELECT r.A FROM s.r WHERE r.A > 10",
            "tables": {"s.r": {"columns": "A int"}, "s.other": {"columns": "B int"}},
            "transactions": [
                {"name": "U1", "source": "s", "changes": "+r(11) +other(1)"},
                {"name": "U2", "source": "s", "changes": "+other(2)"},
                {"name": "U3", "source": "s", "changes": "+r(1) +r(12)"},
            ],
        }
    )


def driver(algorithm: Any, arrivals: int = 0) -> Driver:
    return Driver(algorithm(scenario().view, {}), arrivals)


def changes(update: Update) -> list[tuple[str, list[tuple[Any, ...]]]]:
    return [(c.relation.table, sorted(row for row, _ in (c.inserted or MemoryBag.of(c.delta.schema)).items()))
            for c in update.changes]  # fmt: skip


def test_numbers_go_on_from_the_last_one_stored() -> None:
    """1, 2, 3 after a first load; after a restart from where the table stands; one that stands for many takes many."""
    updates = scenario().updates
    assert [n for n, _ in driver(Eca).number(updates)] == [1, 2, 3]
    restarted = driver(Eca, 40)
    several = (updates[0], replace(updates[1], transactions=5), updates[2])
    assert [n for n, _ in restarted.number(several)] == [41, 46, 47]
    assert restarted.arrivals == 47


def test_an_algorithm_gets_its_views_own_tables_only() -> None:
    """What concerns other tables is taken out; an update of which nothing is left keeps its place."""
    got = [changes(update) for _, update in driver(Eca).number(scenario().updates)]
    assert got == [[("r", [(11,)])], [], [("r", [(1,), (12,)])]]


def test_rows_that_cannot_matter_are_taken_out_where_the_algorithm_wants_it() -> None:
    """ECA-Local is handed only rows that pass the view's own selections, in the simulator and at work alike."""
    got = [changes(update) for _, update in driver(EcaLocal).number(scenario().updates)]
    assert got == [[("r", [(11,)])], [], [("r", [(12,)])]]


def test_a_node_hears_only_of_what_it_has_to_send() -> None:
    """An update of other tables would never be shown by a token: it is left out, and keeps its number."""
    assert [n for n, _ in driver(Ring).number(scenario().updates)] == [1, 3]


def test_who_works_elsewhere_is_not_looked_at() -> None:
    """Where sweeps are run as a whole, updates go on as they are: to look into a large batch would cost more."""
    working = driver(Sweep)
    working.algorithm.delegated = frozenset(Sweep.facts.delegates)
    assert [update for _, update in working.number(scenario().updates)] == list(scenario().updates)


def test_a_commit_of_a_delegated_sweep_names_it_and_pretends_nothing() -> None:
    """The algorithm commits which sweep's rows are added at which arrival; no bag stands in for them."""
    working = driver(Sweep, 7)
    working.algorithm.delegated = frozenset([sweep])
    working.algorithm.batch = 10  # type: ignore[attr-defined]
    (run,) = working.deliver(working.number(scenario().updates))
    assert isinstance(run, Run)
    commits = working.finish(run.key, Swept(run.key))
    assert [commit.actions for commit in commits if isinstance(commit, Commit)] == [
        (AddSwept(Swept(run.key), 8),), (AddSwept(Swept(run.key), 9),), (AddSwept(Swept(run.key), 10),),
    ]  # fmt: skip


def test_split_is_one_for_what_is_at_hand_and_what_is_elsewhere() -> None:
    """By arrival number in order; nothing found adds nothing."""
    view, updates = scenario().view, scenario().updates
    batch = tuple(enumerate(updates, 1))
    assert [actions for _, actions in split(view, None, batch)] == [(), (), ()]
    assert [actions for _, actions in split(view, Swept("k"), batch)] == [(AddSwept(Swept("k"), n),) for n in (1, 2, 3)]
    assert together(view, None) == ()
    assert together(view, Swept("k")) == (AddSwept(Swept("k")),)


def test_a_fork_goes_on_by_itself() -> None:
    """Numbers, nodes and the algorithm's state are the copy's own."""
    one = driver(Ring)
    two = one.fork()
    one.deliver(one.number(scenario().updates))
    assert (one.arrivals, two.arrivals) == (3, 0)
    assert one.fingerprint() != two.fingerprint()
    two.deliver(two.number(scenario().updates))
    assert one.fingerprint() == two.fingerprint()


def test_what_is_at_hand_is_taken_apart_into_bags() -> None:
    """Each update's own rows, in the view's columns; the numbers of its slots are its own arrival's."""
    view, updates = scenario().view, scenario().updates
    found = MemoryBag.of(Schema((*Schema.parse("A int"), Column(ARRIVAL, BIGINT))), [(11, 1), (12, 3), (13, 3)])
    parts = dict(split(view, found, tuple(enumerate(updates, 1))))
    rows = {n: [sorted(row for row, _ in action.delta.items()) for action in actions if isinstance(action, Add)]
            for n, actions in parts.items()}  # fmt: skip
    assert rows == {1: [[(11,)]], 2: [[]], 3: [[(12,), (13,)]]}
