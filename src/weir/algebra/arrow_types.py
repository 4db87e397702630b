"""Our column types as Arrow's: what a column of a bag looks like when it travels between drivers, Spark and Delta."""

from __future__ import annotations

import pyarrow as pa

from weir.algebra.types import Schema, Type

_SIMPLE = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type in which a column of this type travels."""
    if type_.name == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    return _SIMPLE[type_.name]


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.type)) for column in schema])
