"""Finished groups of the log as what a visit delivers: transactions, changes in columns, truncations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.messages import GlobalTransaction
from weir.sources.mysql.changes import TableChanges, WatchedMysqlTable
from weir.sources.mysql.columns import CharacterTables
from weir.sources.mysql.groups import EventGroup
from weir.sources.source import Transaction

# A transaction with parts at several sources inserts a row here: its name, and all its sources with commas between.
MARKER, MARKER_COLUMNS = "weir_global_transaction", ("id", "sources")


@dataclass
class BinlogDelivery:
    """What a visit delivers, in the order of commits."""

    characters: CharacterTables
    marker: WatchedMysqlTable | None = None
    transactions: list[Transaction] = field(default_factory=list)
    truncated: dict[Relation, list[int]] = field(default_factory=dict)
    _gathered: dict[Relation, TableChanges] = field(default_factory=dict)

    def add(self, group: EventGroup) -> None:
        number = len(self.transactions)
        marked = TableChanges(self.marker, self.characters) if self.marker else None
        for plan, part in group.parts:
            is_mark = marked is not None and plan.watched.relation == marked.watched.relation
            (marked if is_mark and marked else self._changes_of(plan.watched)).add(plan, part, number)
        for relation in group.truncated:
            self.truncated.setdefault(relation, []).append(number)
        self.transactions.append(Transaction(group.identifier, _global(marked)))

    def _changes_of(self, watched: WatchedMysqlTable) -> TableChanges:
        if watched.relation not in self._gathered:
            self._gathered[watched.relation] = TableChanges(watched, self.characters)
        return self._gathered[watched.relation]

    def changes(self) -> dict[Relation, pa.Table]:
        return {relation: changes.table() for relation, changes in self._gathered.items()}

    def truncations(self) -> Mapping[Relation, tuple[int, ...]]:
        return {relation: tuple(numbers) for relation, numbers in self.truncated.items()}


def _global(marked: TableChanges | None) -> GlobalTransaction | None:
    if marked is None or 1 not in marked.weights:
        return None
    rows = [row for row, weight in zip(marked.table().to_pylist(), marked.weights, strict=True) if weight > 0]
    sources = frozenset(name.strip() for name in str(rows[-1]["sources"]).split(",") if name.strip())
    return GlobalTransaction(str(rows[-1]["id"]), sources)
