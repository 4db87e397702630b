"""Declared keys and foreign keys, checked in every state of a scenario: an algorithm may rely on what is declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from weir.algebra.catalog import Relation, Table
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row
from weir.simulator.source import SimulatedSource, TableBags


def require_constraints(source: SimulatedSource, tables: Mapping[Relation, Table]) -> None:
    """Refuses a script that breaks a key or a foreign key, or deletes a row that is not there."""
    for position, state in enumerate(source.states):
        when = f"after {source.script[position - 1].name}" if position else "at the start"
        for relation, bag in state.items():
            for problem in _problems(tables[relation], bag, state):
                raise WeirError(f"{when}, {relation} {problem}; mend the scenario's rows or changes")


def _problems(table: Table, bag: MemoryBag, state: TableBags) -> Iterator[str]:
    if any(weight < 0 for _, weight in bag.items()):
        yield "lacks a row that was deleted"
    if table.key:
        twice = [key for key, count in _values(bag, table.key).items() if count > 1]
        if twice:
            yield f"has the key {twice[0]} twice"
    for foreign in table.foreign_keys:
        parents = _values(state[Relation(table.relation.source, foreign.table)], foreign.references)
        orphans = [key for key in _values(bag, foreign.columns) if None not in key and key not in parents]
        if orphans:
            yield f"refers to {orphans[0]}, which {foreign.table} does not have"


def _values(bag: MemoryBag, columns: tuple[str, ...]) -> Counter[Row]:
    positions = bag.schema.positions(columns)
    count: Counter[Row] = Counter()
    for row, weight in bag.items():
        count[tuple(row[at] for at in positions)] += weight
    return count
