"""Views of every awkward shape over tables without keys, and random transactions on them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from weir.algebra.catalog import Relation, Table
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema
from weir.algorithms.base import Algorithm
from weir.messages import Change, Message, Update
from weir.simulator.counters import Counters
from weir.simulator.explore import ViewStates, run_at_random, run_listed
from weir.simulator.scenario import Scenario
from weir.simulator.step import DELIVER, RUN, Step
from weir.simulator.world import World

SCHEMA = Schema.parse("L int, R int")

VIEWS = {
    "a chain over three sources": "SELECT a.L, c.R FROM x.a, y.b, z.c WHERE a.R = b.L AND b.R = c.L",
    "two tables at one source": "SELECT a.L, c.R FROM x.a, x.b, y.c WHERE a.R = b.L AND b.R = c.L",
    "one table twice": "SELECT a.L, b.R FROM x.e AS a, x.e AS b WHERE a.R = b.L",
    "one table three times, with another between": (
        "SELECT a.L, c.R FROM x.e AS a, y.f AS m, x.e AS b, x.e AS c WHERE a.R = m.L AND m.R = b.L AND b.R = c.L"
    ),
    "one table twice, and another of its source": (
        "SELECT a.L, c.R FROM x.e AS a, x.f AS m, x.e AS b, y.g AS c WHERE a.R = m.L AND m.R = b.L AND b.R = c.L"
    ),
    "a triangle": "SELECT a.L, b.L AS M, c.L AS N FROM x.a, y.b, z.c WHERE a.R = b.L AND b.R = c.L AND c.R = a.L",
    "a star": "SELECT b.L, c.L AS M, d.L AS N FROM x.a, y.b, z.c, y.d WHERE a.L = b.R AND a.R = c.R AND a.R = d.R",
    "a join that is no equality": "SELECT a.L, b.R FROM x.a, y.b WHERE a.R < b.L",
    "selections and a cross product": "SELECT a.L, b.R FROM x.a, y.b WHERE a.R = 1 AND b.L > 1",
    "a sum of joins": (
        "SELECT a.L, b.R FROM x.a, y.b WHERE a.R = b.L UNION ALL SELECT b.L, c.R FROM y.b, z.c WHERE b.R = c.L "
        "UNION ALL SELECT a.L, a.R FROM x.a"
    ),
}


def scenario(shape: str, seed: int, updates: int = 4) -> Scenario:
    """A view of that shape over bags with duplicates, and transactions of up to two tables each; always the same."""
    dice = random.Random(f"{shape}/{seed}")
    text = f"CREATE MATERIALIZED VIEW v AS {VIEWS[shape]}"
    relations = _relations(VIEWS[shape])
    content = {r: [_row(dice) for _ in range(dice.randint(0, 2))] for r in relations}
    rows = {r: MemoryBag.of(SCHEMA, tuples) for r, tuples in content.items()}
    positions = {relation.source: 0 for relation in relations}
    script = []
    for number in range(1, updates + 1):
        source = dice.choice(sorted(positions))
        positions[source] += 1
        script.append(Update(source, positions[source], _transaction(dice, source, content), f"U{number}"))
    return Scenario(f"{shape}, seed {seed}", text, {r: Table(r, SCHEMA) for r in relations}, rows, tuple(script))


def _relations(text: str) -> list[Relation]:
    words = {word.strip(",") for word in text.split() if word[0] in "xyz" and "." in word}
    return [Relation(*word.split(".")) for word in sorted(words)]


def _row(dice: random.Random) -> Row:
    return dice.randint(1, 2), dice.randint(1, 2)


def _transaction(dice: random.Random, source: str, content: dict[Relation, list[Row]]) -> tuple[Change, ...]:
    """Up to two tables of the source, each with one or two rows in or out, netted; never nothing."""
    here = [relation for relation in content if relation.source == source]
    touched = dice.sample(here, min(2, len(here)) if dice.random() < 0.7 else 1)
    return tuple(_change(dice, relation, content[relation]) for relation in touched)


def _change(dice: random.Random, relation: Relation, tuples: list[Row]) -> Change:
    before = MemoryBag.of(SCHEMA, tuples)
    while (delta := MemoryBag.of(SCHEMA, tuples) - before) == before - before:
        for _ in range(dice.randint(1, 2)):
            if tuples and dice.random() < 0.45:
                tuples.remove(dice.choice(tuples))
            else:
                tuples.append(_row(dice))
    inserted, deleted = delta.positive(), (-delta).positive()
    return Change(relation, inserted if len(inserted) else None, deleted if len(deleted) else None)


def by_recomputation(given: Scenario, order: Iterable[str]) -> ViewStates:
    """The view after each transaction, recomputed from the sources, transactions taken in the given order."""
    places = {name: at for at, name in enumerate(given.sources)}
    vector = [0] * len(places)
    states = [given.lattice.value(tuple(vector))]
    for name in order:
        source = next(update.source for update in given.updates if update.name == name)
        vector[places[source]] += 1
        states.append(given.lattice.value(tuple(vector)))
    return tuple(states)


class Arrivals(Counters):
    """Counters that also remember in which order updates reached the warehouse."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def delivered(self, message: Message) -> None:
        super().delivered(message)
        if isinstance(message, Update):
            self.order.append(message.name)


def run_by_lot(given: Scenario, algorithm: type[Algorithm], seed: int, **options: Any) -> tuple[World, Arrivals]:
    """One random schedule to its end."""
    world, arrivals = given.begin(algorithm, **options), Arrivals()
    world.observers = (arrivals,)
    run_at_random(world, random.Random(f"{given.title}/{seed}"))
    return world, arrivals


def run_crowded(given: Scenario, algorithm: type[Algorithm], **options: Any) -> tuple[World, Arrivals]:
    """Every transaction runs and arrives, in the order of the scenario, before any question is answered."""
    world, arrivals = given.begin(algorithm, **options), Arrivals()
    world.observers = (arrivals,)
    for update in given.updates:
        world.take(Step(RUN, update.name))
        world.take(Step(DELIVER, update.source))
    run_listed(world, ())
    return world, arrivals
