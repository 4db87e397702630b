"""Scenarios made from a seed: chains of keyed tables over some sources, with small values so that joins hit and
collide.

Table ``t1`` joins ``t2`` joins ``t3`` and so on, each on its column R and the next one's column L. Every table has the
key K. Transactions insert (also under keys that were used before), delete and modify; what a scenario's kind allows
decides how many rows, tables and sources one transaction may touch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from weir.algebra.catalog import Relation, Table
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema
from weir.algorithms.base import GLOBAL, SINGLE_SOURCE, SINGLE_UPDATE
from weir.messages import Change, GlobalTransaction, Update
from weir.simulator.scenario import Scenario

SCHEMA = Schema.parse("K int, L int, R int")


@dataclass(frozen=True)
class Shape:
    """How large, and which transactions: ``kind`` is one of the scenario names of weir.algorithms.base."""

    kind: str
    sources: int = 3
    tables: int = 3
    updates: int = 3
    keyed: bool = True  # whether the view carries the key of every table
    rows: int = 2  # at the most, per table, at the start
    values: int = 2  # different join values
    fifo: bool = True


class _Maker:
    """Builds one scenario; keeps every table's content so that deletes hit and keys stay unique."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.dice = random.Random(f"{shape}/{seed}")
        count = 1 if shape.kind == SINGLE_SOURCE else shape.sources
        self.names = [chr(ord("x") - count + 1 + at) if count <= 3 else f"s{at + 1}" for at in range(count)]
        self.relations = [Relation(self.names[at % count], f"t{at + 1}") for at in range(shape.tables)]
        self.content: dict[Relation, dict[int, Row]] = {relation: {} for relation in self.relations}
        for relation in self.relations:
            for _ in range(self.dice.randint(0, shape.rows)):
                self._insert(relation)
        self.initial = {r: MemoryBag.of(SCHEMA, rows.values()) for r, rows in self.content.items()}

    def view_text(self) -> str:
        joins = [f"{relation} AS {relation.table}" for relation in self.relations]
        conditions = [f"t{at}.R = t{at + 1}.L" for at in range(1, len(joins))]
        keys = [f"t{at + 1}.K AS K{at + 1}" for at in range(len(joins))]
        output = keys if self.shape.keyed else ["t1.L AS L", f"t{len(joins)}.R AS R"]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"CREATE MATERIALIZED VIEW v AS SELECT {', '.join(output)} FROM {', '.join(joins)}{where}"

    def updates(self) -> tuple[Update, ...]:
        updates: list[Update] = []
        positions = dict.fromkeys(self.names, 0)
        while len(updates) < self.shape.updates:
            number = len(updates) + 1
            sources = self._sources_touched()
            group = GlobalTransaction(f"G{number}", frozenset(sources)) if len(sources) > 1 else None
            for source in sources:
                changes = self._transaction(source)
                positions[source] += 1
                name = f"U{number}" + (source if group else "")
                updates.append(Update(source, positions[source], changes, name, group))
        return tuple(updates)

    def _sources_touched(self) -> list[str]:
        several = self.shape.kind == GLOBAL and len(self.names) > 1 and self.dice.random() < 0.6
        return sorted(self.dice.sample(self.names, 2)) if several else [self.dice.choice(self.names)]

    def _transaction(self, source: str) -> tuple[Change, ...]:
        here = [relation for relation in self.relations if relation.source == source]
        if self.shape.kind in (SINGLE_SOURCE, SINGLE_UPDATE):
            touched, rows = [self.dice.choice(here)], 1
        else:
            touched, rows = self.dice.sample(here, self.dice.randint(1, min(2, len(here)))), self.dice.randint(1, 2)
        return tuple(self._change(relation, rows) for relation in touched)

    def _change(self, relation: Relation, rows: int) -> Change:
        before = dict(self.content[relation])
        while self.content[relation] == before:
            for _ in range(rows):
                self._touch(relation)
        after = self.content[relation]
        inserted = MemoryBag.of(SCHEMA, [row for key, row in after.items() if before.get(key) != row])
        deleted = MemoryBag.of(SCHEMA, [row for key, row in before.items() if after.get(key) != row])
        return Change(relation, inserted if len(inserted) else None, deleted if len(deleted) else None)

    def _touch(self, relation: Relation) -> None:
        present = sorted(self.content[relation])
        action = self.dice.choice(["insert", "insert", "delete", "modify"]) if present else "insert"
        if action == "delete":
            del self.content[relation][self.dice.choice(present)]
        elif action == "modify":
            self._put(relation, self.dice.choice(present))
        else:
            self._insert(relation)

    def _insert(self, relation: Relation) -> None:
        unused = [key for key in range(1, self.shape.rows + 4) if key not in self.content[relation]]
        if unused:
            self._put(relation, self.dice.choice(unused))

    def _put(self, relation: Relation, key: int) -> None:
        left, right = (self.dice.randint(1, self.shape.values) for _ in range(2))
        self.content[relation][key] = (key, left, right)


def generate(shape: Shape, seed: int) -> Scenario:
    """The scenario of that shape and seed: always the same one."""
    maker = _Maker(shape, seed)
    tables = {relation: Table(relation, SCHEMA, ("K",)) for relation in maker.relations}
    updates = maker.updates()
    return Scenario(
        f"{shape.kind}: {shape.tables} tables at {len(maker.names)} sources, {len(updates)} updates, seed {seed}",
        maker.view_text(), tables, maker.initial, updates, shape.fifo,
    )  # fmt: skip
