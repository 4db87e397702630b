"""What one visit brought, as updates: many transactions in a few Arrow tables, taken apart only where asked for.

An algorithm wants transactions, one ``Update`` each. A batched sweep wants all of them as one bag per table. So an
update that was delivered knows its block and its number in it, makes its bags when somebody looks, and a batch of such
updates is packed straight from the blocks' tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.messages import Change, GlobalTransaction, Position, Update
from weir.sources.source import TRANSACTION, Transaction, Visit
from weir.spark.arrow_bag import ArrowBag
from weir.spark.arrow_keys import Numbers
from weir.sweeping.packed import NUMBER, PackedUpdates


class Block:
    """The transactions of one visit, and their changes as one table per relation, in the order of transactions."""

    def __init__(self, source: str, visit: Visit, schemas: Mapping[Relation, Schema]) -> None:
        self.source, self.position, self.transactions = source, visit.position, visit.transactions
        self.truncations = {relation: frozenset(numbers) for relation, numbers in visit.truncations.items() if numbers}
        self.schemas = schemas
        self.tables = {r: _in_order(table) for r, table in visit.changes.items() if table.num_rows and r in schemas}

    @cached_property
    def _ends(self) -> Mapping[Relation, Numbers]:
        """Per table, where the rows of transaction 0, 1, 2, ... end."""
        count = len(self.transactions)
        return {r: np.searchsorted(numbers_of(t), np.arange(count), side="right") for r, t in self.tables.items()}

    @property
    def truncated(self) -> frozenset[Relation]:
        """Tables that were emptied without a word on their rows."""
        return frozenset(self.truncations)

    @cached_property
    def touched(self) -> Mapping[Relation, Numbers]:
        """Per table, the transactions that changed it."""
        return {relation: np.unique(numbers_of(table)) for relation, table in self.tables.items()}

    def concerns(self, relations: Iterable[Relation]) -> bool:
        """Whether ``updates`` has any."""
        tables = set(relations)
        touched = not tables.isdisjoint(self.tables) or not tables.isdisjoint(self.truncations)
        return touched or any(transaction.part_of is not None for transaction in self.transactions)

    @property
    def nbytes(self) -> int:
        """What its rows take in memory."""
        return sum(table.nbytes for table in self.tables.values())

    def rows_of(self, relation: Relation, number: int) -> pa.Table:
        """One transaction's rows of one table."""
        ends = self._ends[relation]
        start = int(ends[number - 1]) if number else 0
        return self.tables[relation].slice(start, int(ends[number]) - start)

    def updates(self, relations: Iterable[Relation]) -> Iterator[Delivered]:
        """The transactions that change or truncate one of these tables, and the parts of global ones, which others wait
        for.
        """
        tables = set(relations)
        wanted = {int(n) for relation in tables & self.touched.keys() for n in self.touched[relation]}
        wanted |= {n for relation in tables & self.truncated for n in self.truncations[relation]}
        wanted |= {n for n, transaction in enumerate(self.transactions) if transaction.part_of is not None}
        for number in sorted(wanted):
            yield Delivered(self, number)

    def followed_by(self, other: Block) -> Block:
        """This block and then another of the same source, as one."""
        if not self.transactions:
            return other
        count = len(self.transactions)
        both = Block.__new__(Block)
        both.source, both.position, both.schemas = self.source, other.position, self.schemas
        both.transactions = self.transactions + other.transactions
        moved = {relation: {n + count for n in numbers} for relation, numbers in other.truncations.items()}
        both.truncations = {**self.truncations, **{r: self.truncations.get(r, frozenset()) | moved[r] for r in moved}}
        later = {relation: _shifted(table, count) for relation, table in other.tables.items()}
        both.tables = {**self.tables, **later}
        shared = self.tables.keys() & later.keys()
        both.tables |= {r: pa.concat_tables([_shifted(self.tables[r], 0), later[r]]) for r in shared}
        return both

    def without(self, numbers: Iterable[int]) -> Block:
        """The block less some transactions."""
        gone = set(numbers)
        if not gone:
            return self
        kept = [number for number in range(len(self.transactions)) if number not in gone]
        twin = Block.__new__(Block)
        twin.source, twin.position = self.source, self.position
        twin.schemas = self.schemas
        left = {relation: frozenset(map(kept.index, numbers - gone)) for relation, numbers in self.truncations.items()}
        twin.truncations = {relation: numbers for relation, numbers in left.items() if numbers}
        twin.transactions = tuple(self.transactions[number] for number in kept)
        twin.tables = {r: renumbered for r, t in self.tables.items() if (renumbered := _renumbered(t, kept)).num_rows}
        return twin


class Delivered(Update):
    """One transaction of a block. Its changes are made when somebody looks at them."""

    block: Block
    number: int

    def __new__(cls, *place: Any, **fields: Any) -> Any:
        """An update with other changes (``dataclasses.replace``) is a plain one: it is no longer what was delivered."""
        return Update(**fields) if fields else super().__new__(cls)

    def __init__(self, block: Block, number: int) -> None:
        transaction: Transaction = block.transactions[number]
        last = number == len(block.transactions) - 1
        position: Position = block.position if last else transaction.identifier
        self._set(block, number, position, transaction.identifier, transaction.part_of)

    def _set(self, block: Block, number: int, position: Position, name: str, part: GlobalTransaction | None) -> None:
        values: dict[str, Any] = {"block": block, "number": number, "source": block.source, "position": position}
        values |= {"name": f"{block.source}#{name}", "part_of": part}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __getattr__(self, name: str) -> Any:
        if name != "changes":
            raise AttributeError(name)
        changes = tuple(self._changes())
        object.__setattr__(self, "changes", changes)
        return changes

    def _changes(self) -> Iterator[Change]:
        for relation, touched in self.block.touched.items():
            at = int(np.searchsorted(touched, self.number))
            if at < len(touched) and touched[at] == self.number:
                yield from change_of(relation, self.block.schemas[relation], self.block.rows_of(relation, self.number))

    def __hash__(self) -> int:
        return hash((id(self.block), self.number))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Delivered) and (self.block, self.number) == (other.block, other.number)


def change_of(relation: Relation, schema: Schema, rows: pa.Table) -> Iterator[Change]:
    """A transaction's rows of a table, netted: nothing when they cancel."""
    delta = ArrowBag.from_table(schema, rows.drop_columns([TRANSACTION]) if TRANSACTION in rows.column_names else rows)
    inserted, deleted = delta.positive(), (-delta).positive()
    if len(inserted) or len(deleted):
        yield Change(relation, inserted if len(inserted) else None, deleted if len(deleted) else None)


def merged(updates: Sequence[Delivered]) -> Update:
    """All of a block's updates as one, for levels at which only the end of a batch is shown."""
    last = updates[-1]
    packed = pack((1, update) for update in updates)
    changes = [
        change
        for relation, (schema, table) in packed.tables.items()
        for change in change_of(relation, schema, table.drop_columns([NUMBER]))
    ]
    name = f"{last.source}: {len(updates)} transactions"
    return Update(last.source, last.block.position, tuple(changes), name, transactions=len(updates))


# -- packed batches ----------------------------------------------------------------------------------------------------


def pack(updates: Iterable[tuple[int, Update]], relations: Iterable[Relation] | None = None) -> PackedUpdates:
    """Delivered updates, by their numbers, as one table per relation."""
    by_block: dict[int, tuple[Block, list[int], list[int]]] = {}
    for number, update in updates:
        assert isinstance(update, Delivered), "only what a visit delivered can be packed"
        _, inside, outside = by_block.setdefault(id(update.block), (update.block, [], []))
        inside.append(update.number)
        outside.append(number)
    wanted = None if relations is None else frozenset(relations)
    pieces: dict[Relation, list[pa.Table]] = defaultdict(list)
    schemas: dict[Relation, Schema] = {}
    for block, inside, outside in by_block.values():
        for relation, table in block.tables.items():
            if wanted is None or relation in wanted:
                schemas[relation] = block.schemas[relation]
                pieces[relation].append(_numbered(table, np.array(inside, np.int64), np.array(outside, np.int64)))
    joined = {relation: pa.concat_tables(tables) for relation, tables in pieces.items()}
    return PackedUpdates({r: (schemas[r], table) for r, table in joined.items() if table.num_rows})


def _numbered(table: pa.Table, inside: Numbers, outside: Numbers) -> pa.Table:
    """The rows of some transactions, with the numbers that these have outside."""
    own = numbers_of(table)
    order = np.argsort(inside, kind="stable")
    place = np.searchsorted(inside[order], own)
    known = np.append(inside[order], -1)[place] == own  # beyond the last there is none
    rows = table if known.all() else table.filter(pa.array(known))
    numbers = outside[order][place[known]]
    return rows.drop_columns([TRANSACTION]).append_column(NUMBER, pa.array(numbers, pa.int64()))


def _renumbered(table: pa.Table, kept: Sequence[int]) -> pa.Table:
    rows = _numbered(table, np.array(kept, np.int64), np.arange(len(kept), dtype=np.int64))
    named = rows.rename_columns([TRANSACTION if name == NUMBER else name for name in rows.column_names])
    return named.select(table.column_names)


def _shifted(table: pa.Table, by: int) -> pa.Table:
    """Sources number their transactions in integers of any width."""
    numbers = pa.array(numbers_of(table) + by, pa.int64())
    return table.set_column(table.schema.get_field_index(TRANSACTION), TRANSACTION, numbers)


def _in_order(table: pa.Table) -> pa.Table:
    """By transaction; the order of rows inside one does not matter."""
    numbers = numbers_of(table)
    return table if (np.diff(numbers) >= 0).all() else table.take(pa.array(np.argsort(numbers, kind="stable")))


def numbers_of(table: pa.Table) -> Numbers:
    values: Numbers = table.column(TRANSACTION).to_numpy().astype(np.int64)
    return values
