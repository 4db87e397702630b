"""What a task and the driver say to each other: lookups with their keys, tables or a reason why there are none.

A question's document has its source and round and, for each lookup, its names and its condition; its tables are the
keys, in their columns' Arrow types, every key once. An answer's tables are the answers; where there are none, its
document says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.bag import WEIGHT, Bag
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.expression import Expression, Written
from weir.algebra.hops import Lookup
from weir.algebra.types import Column, Schema, parse_type
from weir.sources.source import Answers
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import named_problem, problem_named
from weir.sweeping.parcel import NotUnderstood, packed, unpacked


@dataclass(frozen=True)
class LookupRequest:
    """Lookups in the snapshot that a round holds of a source."""

    source: str
    round: int
    lookups: tuple[Lookup, ...]

    def packed(self) -> list[Any]:
        """As a message."""
        lookups = [_lookup_document(lookup) for lookup in self.lookups]
        keys = [_key_table(lookup.keys) for lookup in self.lookups if lookup.keys is not None]
        return packed({"source": self.source, "round": self.round, "lookups": lookups}, keys)

    @classmethod
    def unpacked(cls, content: bytes | bytearray) -> LookupRequest:
        """From a message; NotUnderstood if it is none."""
        document, keys = unpacked(content)
        try:
            lookups = tuple(_lookup(each, keys) for each in document["lookups"])
            return cls(str(document["source"]), int(document["round"]), lookups)
        except (ValueError, LookupError, TypeError) as problem:
            raise NotUnderstood(problem) from None


def packed_answers(answers: Answers) -> list[Any]:
    return packed({}, answers)


def packed_problem(problem: WeirError) -> list[Any]:
    return packed({"problem": named_problem(problem)})


def unpacked_answers(content: bytes | bytearray) -> Answers:
    """The answers; raises the problem where there is one."""
    document, tables = unpacked(content)
    if "problem" in document:
        raise problem_named(document["problem"])
    return tuple(tables)


def _lookup_document(lookup: Lookup) -> dict[str, Any]:
    keys, selection = lookup.keys, lookup.selection
    return {
        "relation": lookup.relation,
        "columns": lookup.columns,
        "key_columns": lookup.key_columns,
        "keys": None if keys is None else [(column.name, str(column.type)) for column in keys.schema],
        "selection": None if selection is None else _expression_document(selection),
    }


def _expression_document(expression: Expression) -> dict[str, Any]:
    written = expression.written
    return {"sql": expression.sql, "written": None if written is None else [written.text, written.reads]}


def _key_table(keys: Bag) -> pa.Table:
    bag = keys if isinstance(keys, ArrowBag) else ArrowBag.weighted(keys.schema, keys.items())
    return bag.table.select(range(len(bag.schema)))


def _lookup(document: dict[str, Any], keys: list[pa.Table]) -> Lookup:
    """``keys``: the tables that are left, of which it takes the first if it has keys."""
    relation, columns, key_columns = (document[name] for name in ("relation", "columns", "key_columns"))
    bag = None if document["keys"] is None else _key_bag(document["keys"], keys.pop(0))
    selection = None if document["selection"] is None else _expression(document["selection"])
    return Lookup(Relation(*relation), tuple(columns), tuple(key_columns), bag, selection)


def _key_bag(columns: Sequence[tuple[str, str]], table: pa.Table) -> ArrowBag:
    schema, shape = _key_schema(tuple(map(tuple, columns)))
    if table.schema != shape:
        raise ValueError(f"keys of ({schema}) in columns of other types")
    once = pa.array(np.ones(table.num_rows, np.int64))
    return ArrowBag(schema, table.append_column(WEIGHT, once), consolidated=True)


@lru_cache(maxsize=1024)
def _key_schema(columns: tuple[tuple[str, str], ...]) -> tuple[Schema, pa.Schema]:
    schema = Schema(Column(name, parse_type(type_)) for name, type_ in columns)
    return schema, arrow_schema(schema)


def _expression(document: dict[str, Any]) -> Expression:
    if document["written"] is None:
        return Expression(document["sql"])
    text, reads = document["written"]
    return Expression(document["sql"], Written(text, tuple((read, slot, name) for read, slot, name in reads)))
