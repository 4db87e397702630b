"""The columns of a view's table: the view's own and nothing else.

A batch that comes to the table has beside them a signed weight, and the arrival number of the transaction that caused
it; both are kept with the states inside a batch, in files that only Weir reads. The files of the change feed have the
kind of change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import BIGINT, Column, Schema
from weir.warehouse.errors import BadColumns

WEIGHT, ARRIVAL, HASH = "_weir_weight", "_weir_arrival", "_weir_hash"
CHANGE = "_change_type"
RESERVED = "_weir_"
FEED = (CHANGE, "_commit_version", "_commit_timestamp")  # what a reader of the change feed sees beside the columns
# Delta refuses these in a name, unless names are mapped, which many clients cannot read. A NUL marks names inside Weir.
FORBIDDEN = " ,;{}()\n\t=\0"


def check_columns(schema: Schema) -> None:
    """Refuses, by name, what not every Delta client could read."""
    if not schema:
        raise BadColumns("a view without columns cannot be stored: select at least one")
    check_names(schema.names)
    for column in schema:
        if column.type.name == "void":
            raise BadColumns(
                f"column '{column.name}' is a bare NULL without a type: write CAST(NULL AS int), or what you mean"
            )


def check_names(names: Sequence[str]) -> None:
    """The part of it that needs no types."""
    for name in names:
        _check_name(name)
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise BadColumns(
                f"columns '{seen[name.lower()]}' and '{name}' are the same to Delta, which ignores case: "
                f"give one of them another name with AS"
            )
        seen[name.lower()] = name


def _check_name(name: str) -> None:
    bad = sorted({char for char in name if char in FORBIDDEN})
    if bad or not name:
        held = ", ".join(repr(char) for char in bad) or "nothing"
        raise BadColumns(
            f"column '{name}' cannot be stored in Delta, its name holds {held}: name it with AS, e.g. AS {_plain(name)}"
        )
    if name.lower().startswith(RESERVED):
        raise BadColumns(f"column '{name}': names that start with '{RESERVED}' are Weir's own; name it with AS")
    if name.lower() in FEED:
        raise BadColumns(f"column '{name}': readers of Delta's change feed have one of that name; name it with AS")


def escaped(schema: Schema) -> Schema:
    """The columns of a table that only Weir reads, with ``%20`` for a blank and the like: Delta takes any of them.

    >>> escaped(Schema.of(**{"c. id": BIGINT, "50%": BIGINT, "_weir_x": BIGINT})).names
    ('c.%20id', '50%25', '%5Fweir_x')
    """
    return Schema(Column(_escaped(column.name), column.type) for column in schema)


def unescaped(schema: Schema) -> Schema:
    """What ``escaped`` was given."""
    return Schema(Column(unquote(column.name), column.type) for column in schema)


def _escaped(name: str) -> str:
    text = "".join(f"%{ord(char):02X}" if char in FORBIDDEN + "%" else char for char in name)
    taken = text.lower().startswith(RESERVED) or text.lower() in FEED
    return f"%{ord(text[0]):02X}{text[1:]}" if taken else text


def _plain(name: str) -> str:
    return "_".join("".join(" " if char in FORBIDDEN else char for char in name).split()) or "name"


def stored_schema(schema: Schema) -> Schema:
    """A batch with all that belongs to it."""
    return Schema((*schema, Column(WEIGHT, BIGINT), Column(ARRIVAL, BIGINT), Column(HASH, BIGINT)))


def stored_arrow(schema: Schema) -> pa.Schema:
    return arrow_schema(stored_schema(schema))


def telling(schema: pa.Schema, arrival: int) -> pa.Schema:
    """The columns of a file that says, where only Weir looks, up to which arrival its table had come: whoever has lost
    the log still knows it.
    """
    return schema.with_metadata({ARRIVAL: str(arrival)})


def fit(table: pa.Table, schema: Schema) -> pa.Table:
    """The view's columns of a batch in the declared types, with one representative per value (no -0.0, one NaN)."""
    wanted = arrow_schema(schema)
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise missing_columns(missing, table.column_names)
    return pa.table([_cast(table.column(field.name), field) for field in wanted], schema=wanted)


def missing_columns(missing: list[str], present: list[str]) -> BadColumns:
    return BadColumns(f"the batch has no column {', '.join(map(repr, missing))}; it has {', '.join(present)}")


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        cast = values if values.type == field.type else values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise BadColumns(
            f"column '{field.name}' of the batch is {values.type}, the view's is {field.type}: {problem}"
        ) from None
    return _one_representative(cast, field.type) if pa.types.is_floating(field.type) else cast


def _one_representative(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    nan, zero = pa.scalar(float("nan"), type_), pa.scalar(0.0, type_)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def integers(table: pa.Table, name: str, default: int) -> Any:
    """A bigint column of a batch, or the same number in every row."""
    if name in table.column_names:
        return table.column(name).cast(pa.int64())
    return pa.chunked_array([pa.array([default], pa.int64()).take(pa.array([0] * table.num_rows, pa.int64()))])
