"""What is known of the sources' tables: columns, keys, foreign keys, indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from weir.algebra.errors import WeirError
from weir.algebra.types import Schema


class Relation(NamedTuple):
    """A base table's full name.

    >>> str(Relation("crm", "customer"))
    'crm.customer'
    """

    source: str
    table: str

    def __str__(self) -> str:
        return f"{self.source}.{self.table}"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``columns`` of a table refer to the columns ``references`` of another table at the same source."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table as its source describes it. ``key`` is empty when the table has none."""

    relation: Relation
    schema: Schema
    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Catalog:
    """All tables of all sources."""

    tables: Mapping[Relation, Table] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Iterable[Table]) -> Catalog:
        return cls({table.relation: table for table in tables})

    def __getitem__(self, relation: Relation) -> Table:
        try:
            return self.tables[relation]
        except KeyError:
            known = ", ".join(sorted(str(name) for name in self.tables)) or "none"
            raise WeirError(f"unknown table {relation}; known tables: {known}") from None

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({relation.source for relation in self.tables}))
