"""Scenarios for the partition tests: small ones written down, larger ones by lot."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from weir.algebra.catalog import Relation
from weir.algebra.memory import MemoryBag
from weir.algorithms.partitioned import Partitioned
from weir.messages import Ask, Commit
from weir.simulator.scenario import Scenario, parse
from weir.simulator.source import evaluate_at
from weir.simulator.world import Observer, World

COLUMNS = {
    "x.r1": "A int, B int",
    "y.r2": "B int, C int",
    "z.r3": "C int, D int",
    "z.r4": "D int, E int",
}
KEYS = {"x.r1": ["A", "B"], "y.r2": ["B", "C"], "z.r3": ["C", "D"], "z.r4": ["D", "E"]}  # whole rows: sets
CHAIN_3 = "SELECT r1.A, r2.C, r3.D FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN z.r3 ON r2.C = r3.C"
CHAIN_4 = (
    "SELECT r1.A, r4.E FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN z.r3 ON r2.C = r3.C JOIN z.r4 ON r3.D = r4.D "
    "WHERE r1.A <= r4.E + 1 AND r2.B < 3"
)
SELF_JOIN = (
    "SELECT p.C AS first, q.C AS second, r1.A + q.B AS total FROM y.r2 AS p JOIN x.r1 ON p.B = r1.B "
    "JOIN y.r2 AS q ON r1.A = q.B WHERE p.C <> q.C + 5"
)
TWO_TERMS = (
    "SELECT r1.A, r2.C FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN z.r3 ON r2.C = r3.C "
    "UNION ALL SELECT r4.D, s.C FROM z.r4 JOIN z.r3 ON r4.D = r3.D JOIN y.r2 AS s ON s.C = r3.C"
)
CROSS = "SELECT r1.A, r4.E FROM x.r1 CROSS JOIN z.r4 JOIN y.r2 ON r1.B = r2.B"
VIEWS = {"chain of 3": CHAIN_3, "chain of 4": CHAIN_4, "self-join": SELF_JOIN, "two terms": TWO_TERMS, "cross": CROSS}


def scenario(select: str, rows: Mapping[str, str], *transactions: tuple[str, str], keyed: bool = True) -> Scenario:
    """Transactions are (source, changes), called U1, U2, ..."""
    tables = {
        name: {"columns": columns, "rows": rows.get(name, ""), "key": KEYS[name] if keyed else []}
        for name, columns in COLUMNS.items()
    }
    listed = [{"name": f"U{at}", "source": s, "changes": c} for at, (s, c) in enumerate(transactions, 1)]
    text = f"CREATE MATERIALIZED VIEW v AS {select}"
    return parse({"title": "partition", "view": text, "tables": tables, "transactions": listed})


def by_lot(select: str, seed: int, transactions: int = 8, values: int = 3) -> Scenario:
    """Tables that are sets (whole rows are keys); transactions of up to three changes over any tables of a source."""
    dice = random.Random(f"partition/{seed}")
    state = {name: _rows(dice, values) for name in COLUMNS}
    rows = {name: " ".join(map(str, sorted(held))) for name, held in state.items()}
    script = [_transaction(dice, state, values) for _ in range(transactions)]
    return scenario(select, rows, *script)


def _rows(dice: random.Random, values: int) -> set[tuple[int, int]]:
    return {(a, b) for a in range(values) for b in range(values) if dice.random() < 0.4}


def _transaction(dice: random.Random, state: dict[str, set[tuple[int, int]]], values: int) -> tuple[str, str]:
    source = dice.choice("xyzz")
    changes, touched = [], set()
    for _ in range(dice.choice((1, 1, 2, 3))):
        name = dice.choice([table for table in state if table.startswith(source)])
        row = (dice.randrange(values), dice.randrange(values))
        if (name, row) in touched:
            continue
        touched.add((name, row))
        changes.append(("-" if row in state[name] else "+") + name.partition(".")[2] + str(row))
        state[name] ^= {row}
    return source, " ".join(changes)


class Stored(Observer):
    """An observer that keeps what commits say must be stored beside the view, as a warehouse would."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.algorithm, Partitioned)
        self.bags: dict[str, MemoryBag] = {name: _in_memory(bag) for name, bag in world.algorithm.auxiliary.items()}
        self.questions = 0

    def asked(self, ask: Ask) -> None:
        self.questions += 1

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        for name, delta in commit.auxiliary.items():
            self.bags[name] = self.bags[name] + _in_memory(delta) if name in self.bags else _in_memory(delta)


def check_auxiliary(world: World, stored: Stored) -> None:
    """The auxiliary views equal their definitions at the vector shown; so do the stored ones, once all is stored."""
    machine = world.algorithm
    assert isinstance(machine, Partitioned)
    tables = tables_at(world, world.vectors[-1])
    for group, bag in machine.content.items():
        assert bag == evaluate_at(tables, group.query)[0], f"{group} at {world.vectors[-1]}"
    kept = dict(stored.bags)
    for name, delta in machine.unstored.items():
        kept[name] = kept[name] + _in_memory(delta) if name in kept else _in_memory(delta)
    current = {name: _in_memory(bag) for name, bag in machine.auxiliary.items()}
    assert {n: b for n, b in kept.items() if len(b)} == {n: b for n, b in current.items() if len(b)}
    assert world.view == evaluate_at(tables, machine.definition)[0]


def tables_at(world: World, vector: Mapping[str, Any]) -> dict[Relation, MemoryBag]:
    return {r: bag for name, source in world.sources.items() for r, bag in source.states[vector[name]].items()}


def run_checked(world: World, dice: random.Random) -> Stored:
    """Runs by lot and compares after every step."""
    stored = Stored(world)
    world.observers = (stored,)
    while steps := world.enabled():
        world.take(dice.choice(steps))
        check_auxiliary(world, stored)
    return stored


def questions_of(world: World, steps: Sequence[Any] = ()) -> int:
    """Runs to the end without concurrency and counts the questions."""
    from weir.simulator.explore import run_listed

    stored = Stored(world)
    world.observers = (stored,)
    run_listed(world, tuple(steps))
    return stored.questions


def _in_memory(bag: Any) -> MemoryBag:
    assert isinstance(bag, MemoryBag)
    return bag
