"""Scenarios for the token algorithms, and what exploring them found in every history."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from weir.algorithms.base import Algorithm
from weir.consistency.carried import check_vectors
from weir.consistency.checker import check
from weir.consistency.history import SourceHistory
from weir.consistency.replay import Running
from weir.consistency.vectors import VectorSpace
from weir.consistency.verdict import Verdict
from weir.simulator.explore import Exploration, every_schedule
from weir.simulator.scenario import Scenario, parse
from weir.simulator.world import World

Transactions = Sequence[tuple[str, ...]]  # source, changes, and the global transaction it is part of, if any
Tables = dict[str, tuple[str, str]]  # columns and rows
CHANNELS = ("fifo", "reorder")
RING_PROPERTIES = ("validity", "order", "up-to-date")

THREE_SOURCES = {
    "x.r1": ("A int, B int", "(1, 2)"),
    "y.r2": ("B int, C int", "(2, 3)"),
    "z.r3": ("C int, D int", "(3, 4)"),
}
CHAIN = "SELECT r1.A, r2.B, r2.C, r3.D FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN z.r3 ON r2.C = r3.C"
ONE_SOURCE = {"s.r1": ("W int, X int", "(1, 2)"), "s.r2": ("X int, Y int", "(2, 3)")}
PAIR = "SELECT r1.W, r2.Y FROM s.r1 JOIN s.r2 ON r1.X = r2.X"
TWO_TABLES = {
    "x.r1": ("A int, B int", "(1, 2)"),
    "x.r0": ("A int, E int", "(1, 9)"),
    "y.r2": ("B int, C int", "(2, 3)"),
}
SELF_JOIN = (
    "SELECT r1.A, r0.E, q.A AS partner, r2.C FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN x.r0 ON r0.A = r1.A "
    "JOIN x.r1 q ON q.B = r2.B WHERE r0.E + r2.C > 5"
)


def scenario(title: str, tables: Tables, select: str, changes: Transactions, channels: str) -> Scenario:
    """A scenario over tables, with transactions U1, U2, ... in this order per source."""
    return parse(
        {
            "title": title,
            "view": f"CREATE MATERIALIZED VIEW v AS {select}",
            "channels": channels,
            "tables": {name: {"columns": columns, "rows": rows} for name, (columns, rows) in tables.items()},
            "transactions": [
                {"name": f"U{number}", "source": source, "changes": text, **({"global": part[0]} if part else {})}
                for number, (source, text, *part) in enumerate(changes, 1)
            ],
        }
    )


_SCENARIOS: dict[str, tuple[Tables, str, Transactions]] = {
    "single-source": (
        ONE_SOURCE, PAIR, (("s", "+r2(2, 4)"), ("s", "+r1(3, 2)"), ("s", "-r1(1, 2)"), ("s", "-r2(2, 4)"))
    ),
    "inserts": (
        THREE_SOURCES, CHAIN, (("x", "+r1(5, 2)"), ("y", "+r2(2, 7)"), ("z", "+r3(7, 8)"), ("z", "+r3(3, 9)"))
    ),
    "deletes": (
        THREE_SOURCES, CHAIN, (("x", "+r1(5, 2)"), ("y", "-r2(2, 3)"), ("z", "-r3(3, 4)"), ("x", "-r1(1, 2)"))
    ),
    "modifications": (
        THREE_SOURCES, CHAIN,
        (("x", "-r1(1, 2) +r1(6, 2)"), ("y", "-r2(2, 3) +r2(2, 7)"), ("z", "+r3(7, 8)"), ("x", "-r1(6, 2)")),
    ),
    "transactions": (
        TWO_TABLES, SELF_JOIN,
        (("x", "+r1(5, 2) +r0(5, 8) -r0(1, 9)"), ("y", "+r2(2, 7) -r2(2, 3)"), ("x", "-r1(1, 2) +r0(1, 4)")),
    ),
    "global": (
        THREE_SOURCES, CHAIN, (("x", "+r1(5, 2)", "G"), ("z", "-r3(3, 4) +r3(3, 5)", "G"), ("y", "+r2(2, 3)"))
    ),
}  # fmt: skip
SOURCE_LOCAL = tuple(name for name in _SCENARIOS if name != "global")


def named(name: str, channels: str = "fifo") -> Scenario:
    """One of the scenarios above."""
    return scenario(name, *_SCENARIOS[name], channels)


def explore(case: Scenario, algorithm: type[Algorithm]) -> Exploration:
    """Every schedule; says how many there were."""
    found = every_schedule(case, lambda: case.begin(algorithm))
    channels = "fifo" if case.fifo else "reorder"
    print(f"{algorithm.facts.name}, {case.title}, {channels}: {found.schedules:,} schedules in {found.states:,} states")
    return found


def held_by_all(found: Exploration) -> set[str]:
    """Levels and properties that every history holds."""
    return set.intersection(*(set(check(found.scenario.lattice, history).held) for history in found.histories))


def run_some(world: World, seed: int, steps: int, ended: Callable[[World], bool] = lambda world: False) -> World:
    """A run by lot that need not come to an end by itself."""
    dice = random.Random(seed)
    for _ in range(steps):
        enabled = world.enabled()
        if not enabled or ended(world):
            break
        world.take(dice.choice(enabled))
    return world


def carried_verdict(world: World) -> Verdict:
    """The verdict on a run by the vectors that its commits carry."""
    view = world.algorithm.view
    histories = tuple(SourceHistory(s.name, s.script, s.states[0]) for s in world.sources.values())
    vectors = [tuple(vector[name] for name in world.sources) for vector in world.vectors]
    return check_vectors(VectorSpace(histories), Running(view, histories), world.states, vectors)


def many_updates(count: int, seed: int, channels: str) -> Scenario:
    """Five sources in a chain, and inserts, deletes and modifications that mostly change the view."""
    dice = random.Random(seed)
    tables = {f"s{at}.t{at}": ("K int, V int", f"(1, {at}) (2, {at})") for at in range(1, 6)}
    joins = " ".join(f"JOIN s{at}.t{at} ON t{at}.K = t{at - 1}.K" for at in range(2, 6))
    select = f"SELECT t1.K, t1.V + t2.V AS a, t3.V + t4.V AS b, t5.V AS c FROM s1.t1 {joins}"
    rows = {at: [(1, at), (2, at)] for at in range(1, 6)}
    changes = []
    for number in range(count):
        at = dice.randint(1, 5)
        key, text = dice.randint(1, 2), ""
        if len(rows[at]) > 2 or (len(rows[at]) > 1 and dice.random() < 0.4):
            gone = rows[at].pop(dice.randrange(len(rows[at])))
            text = f"-t{at}({gone[0]}, {gone[1]}) "
        if not text or dice.random() < 0.5:
            rows[at].append((key, 100 + number))
            text += f"+t{at}({key}, {100 + number})"
        changes.append((f"s{at}", text))
    return scenario(f"{count} updates, seed {seed}", tables, select, changes, channels)
