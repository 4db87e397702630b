"""The normal form of a view: a sum of terms ``project(select(join of slots))``.

A **slot** is one occurrence of a table in a FROM clause; a table that occurs twice fills two slots. Inside a term every
column is called ``alias.column``. The term's conditions are split by what they need:

- **equalities** between plain columns of two slots: they drive the joins and the keys that are shipped to a source;
- **selections** on one slot alone: they can be applied before anything else;
- the **rest**: everything that spans slots and is no plain equality, applied as soon as its columns are together.

``weir.algebra.sql`` builds this from SQL text. Room for aggregates: they would stand above the sum of terms, as a
function of its bag, and nothing below would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from weir.algebra.catalog import ForeignKey, Relation
from weir.algebra.expression import Expression
from weir.algebra.types import Column, Schema

T = TypeVar("T")


@dataclass(frozen=True)
class Slot:
    """One occurrence of a table. ``schema`` holds the needed columns under the table's own names, in table order."""

    alias: str
    relation: Relation
    schema: Schema
    key: tuple[str, ...] = ()  # the table's key, all of it, whether needed or not
    foreign_keys: tuple[ForeignKey, ...] = ()

    def qualify(self, column: str) -> str:
        return f"{self.alias}.{column}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The needed columns as the term calls them."""
        return tuple(self.qualify(name) for name in self.schema.names)

    @cached_property
    def qualified(self) -> Schema:
        return Schema(Column(self.qualify(c.name), c.type) for c in self.schema)


@dataclass(frozen=True)
class Equality:
    """``left = right`` between plain columns of two different slots, whose types compare without a lossy cast."""

    left_slot: int
    left: str  # qualified names
    right_slot: int
    right: str

    def sides(self) -> Iterator[tuple[int, str, int, str]]:
        """The equality seen from either side: (my slot, my column, other slot, other column)."""
        yield self.left_slot, self.left, self.right_slot, self.right
        yield self.right_slot, self.right, self.left_slot, self.left

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True, eq=False)
class Term:
    """``project(select(slot x slot x ...))``. Compared by identity: a view has its terms once, and they are hashed
    often.
    """

    slots: tuple[Slot, ...]
    equalities: tuple[Equality, ...] = ()
    selections: tuple[Expression | None, ...] = ()  # one per slot
    rest: tuple[Expression, ...] = ()
    output: tuple[tuple[str, Expression], ...] = ()

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(slot.relation.source for slot in self.slots)

    @cached_property
    def _slot_of_column(self) -> Mapping[str, int]:
        return {name: at for at, slot in enumerate(self.slots) for name in slot.names}

    @cached_property
    def schema(self) -> Schema:
        """The columns of all slots, joined."""
        return Schema(column for slot in self.slots for column in slot.qualified)

    @cached_property
    def spark_only(self) -> tuple[Expression, ...]:
        """The conditions and outputs that only Spark can evaluate."""
        conditions = [*(each for each in self.selections if each is not None), *self.rest]
        outputs = [output for _, output in self.output if output not in conditions]
        return (
            *(each for each in conditions if each.spark_only(self.schema, condition=True)),
            *(each for each in outputs if each.spark_only(self.schema)),
        )

    def slots_of(self, expression: Expression) -> frozenset[int]:
        """The slots whose columns the expression reads."""
        return frozenset(self._slot_of_column[name] for name in expression.columns)

    def occurrences(self, relation: Relation) -> list[int]:
        """The slots that this table fills."""
        return [at for at, slot in enumerate(self.slots) if slot.relation == relation]

    @cached_property
    def carried_keys(self) -> tuple[tuple[tuple[str, str], ...] | None, ...]:
        """Per slot, pairs (output column, the table's key column) when the output carries the slot's whole key.

        A key column is carried when it, or a column equal to it by a join equality, is itself an output column.
        """
        return tuple(self._carried_key(slot) for slot in self.slots)

    def _carried_key(self, slot: Slot) -> tuple[tuple[str, str], ...] | None:
        plain = {expression.plain_column: name for name, expression in reversed(self.output)}
        pairs = []
        for key_column in slot.key:
            found = [plain[name] for name in self._equal_columns(slot.qualify(key_column)) if name in plain]
            if not found:
                return None
            pairs.append((found[0], key_column))
        return tuple(pairs) or None

    def _equal_columns(self, name: str) -> list[str]:
        """The column itself, then all that the equalities make equal to it."""
        reached = [name]
        for at in reached:
            for equality in self.equalities:
                for _, mine, _, other in equality.sides():
                    if mine == at and other not in reached:
                        reached.append(other)
        return reached


@dataclass(frozen=True, eq=False)
class View:
    """A named sum of terms with the user's options."""

    name: str
    terms: tuple[Term, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The output columns' names: the first term's, as in SQL's UNION ALL."""
        return tuple(name for name, _ in self.terms[0].output)

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """Every base table of the view, once, in order of first occurrence."""
        return _unique(slot.relation for term in self.terms for slot in term.slots)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Every source of the view, once, in order of first occurrence."""
        return _unique(relation.source for relation in self.relations)

    @cached_property
    def needed(self) -> Mapping[Relation, Schema]:
        """The columns that any slot of the view needs, per table."""
        return needed_schemas([self])

    @cached_property
    def spark_only(self) -> tuple[Expression, ...]:
        """The expressions that only Spark can evaluate."""
        return tuple(expression for term in self.terms for expression in term.spark_only)

    @property
    def keyed(self) -> bool:
        """Whether the keyed algorithms apply: one term, and its output carries the key of every slot."""
        return len(self.terms) == 1 and all(keys is not None for keys in self.terms[0].carried_keys)


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def needed_schemas(views: Iterable[View]) -> dict[Relation, Schema]:
    """The columns that these views need, per table, in their own types."""
    columns: dict[Relation, dict[str, Column]] = {}
    for slot in (slot for view in views for term in view.terms for slot in term.slots):
        columns.setdefault(slot.relation, {}).update((column.name, column) for column in slot.schema)
    return {relation: Schema(found.values()) for relation, found in columns.items()}
