"""Column types of MariaDB and MySQL as ours, and how each is read from an answer and from the binlog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from weir.algebra import types as t
from weir.algebra.arrow_types import arrow_type
from weir.sources.mysql import old_temporals
from weir.sources.mysql import values as v
from weir.sources.mysql.rows import Field

INTEGERS = {  # name -> (struct codes signed and unsigned, our types signed and unsigned)
    "tinyint": ("bB", t.TINYINT, t.SMALLINT),
    "smallint": ("hH", t.SMALLINT, t.INT),
    "mediumint": ("iI", t.INT, t.INT),
    "int": ("iI", t.INT, t.BIGINT),
    "bigint": ("qQ", t.BIGINT, t.decimal(20, 0)),
}
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
UTF8 = ("utf8", "utf8mb3", "utf8mb4", "ascii")
CODECS = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}

# Type numbers of the protocol and of the binlog.
TYPE_NUMBERS = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "bigint": 8, "mediumint": 9, "date": 10, "year": 13,
    "varchar": 15, "varbinary": 15, "bit": 16, "timestamp": 17, "datetime": 18, "decimal": 246, "enum": 247, "set": 248,
    "char": 254, "binary": 254,
}  # fmt: skip
BLOB = 252
ANSWER_NUMBERS = {"varchar": 253, "varbinary": 253, "timestamp": 7, "datetime": 12, "enum": 254, "set": 254}
ADVICE = {
    "json": "native JSON comes in another text from the log than from a query: store it as TEXT",
    "time": "no type of Spark's holds it: store seconds as BIGINT",
}


@dataclass(frozen=True)
class MysqlColumn:
    """One column as ``information_schema`` tells it; ``place`` counts from 0 and is its place in the binlog's rows."""

    name: str
    place: int
    kind: str  # int, varchar, ...
    declared: str  # int(10) unsigned, ...
    precision: int = 0
    scale: int | None = None
    fraction: int = 0  # digits of a second
    length: int = 0  # bytes
    characters: str | None = None
    collation: str | None = None
    generated: str = ""

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.declared.lower() or "zerofill" in self.declared.lower()

    @property
    def is_old(self) -> bool:
        """Whether it is a date or time in the format of MariaDB 5.3."""
        return self.kind in old_temporals.NUMBERS and old_temporals.MARK in self.declared

    @property
    def type_number(self) -> int:
        """The number the binlog's table map must give; another one means that the table has changed."""
        if self.is_old:
            return old_temporals.NUMBERS[self.kind]
        return TYPE_NUMBERS.get(self.kind, BLOB)

    @property
    def log_detail(self) -> int | None:
        """What the table map must say of the type beside its number; None where nothing depends on it."""
        if self.kind == "decimal":
            return self.precision << 8 | (self.scale or 0)
        return self.fraction if self.kind in ("datetime", "timestamp") and not self.is_old else None

    @property
    def answer_number(self) -> int:
        return ANSWER_NUMBERS.get(self.kind, TYPE_NUMBERS.get(self.kind, BLOB))

    @property
    def members(self) -> tuple[str, ...]:
        """The names of an ENUM or a SET."""
        quoted = re.findall(r"'((?:[^'\\]|''|\\.)*)'", self.declared, re.DOTALL)
        return tuple(re.sub(r"''|\\(.)", _unquote, name, flags=re.DOTALL) for name in quoted)


def _unquote(match: re.Match[str]) -> str:
    special = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
    return "'" if match[1] is None else special.get(match[1], match[1])


def our_type(column: MysqlColumn) -> t.Type | str:
    """Our type, or a text that says why there is none."""
    kind = column.kind
    if "compressed" in column.declared.lower() and kind not in ("enum", "set"):
        return f"{column.declared}: compressed columns are not decoded; make the column uncompressed"
    if column.generated == "virtual":
        return f"{column.declared}: a virtual generated column is not in the change log; make it STORED"
    if kind in INTEGERS:
        return INTEGERS[kind][1 + column.unsigned]
    if kind == "decimal":
        fits = column.precision <= t.MAX_PRECISION
        return (
            t.decimal(column.precision, column.scale or 0)
            if fits
            else f"{column.declared}: more than {t.MAX_PRECISION} digits"
        )
    if kind == "bit":
        return t.BOOLEAN if column.precision == 1 else t.BIGINT if column.precision < 64 else t.decimal(20, 0)
    if kind in (*TEXTS, "enum", "set"):
        return _text_type(column)
    simple = {
        "float": t.FLOAT,
        "double": t.DOUBLE,
        "year": t.SMALLINT,
        "date": t.DATE,
        "datetime": t.TIMESTAMP_NTZ,
        "timestamp": t.TIMESTAMP,
    }
    if kind in BYTES:
        return t.BINARY
    return simple.get(kind) or f"{column.declared}: {ADVICE.get(kind, 'not a type of Spark')}"


def _text_type(column: MysqlColumn) -> t.Type | str:
    known = column.characters in (*UTF8, *CODECS) or column.characters in SINGLE_BYTE or column.kind in ("enum", "set")
    return (
        t.STRING
        if known
        else f"{column.declared} in the character set {column.characters}: convert the column to utf8mb4"
    )


# Character sets of one byte per character; the server is asked for their 256 characters.
SINGLE_BYTE = (
    "latin1", "latin2", "latin5", "latin7", "cp850", "cp852", "cp866", "cp1250", "cp1251", "cp1256", "cp1257", "koi8r",
    "koi8u", "hebrew", "tis620", "greek", "armscii8", "geostd8", "keybcs2", "macce", "macroman", "dec8", "hp8", "swe7",
)  # fmt: skip
CharacterTables = Mapping[str, str]  # character set -> its 256 characters


# -- from an answer (binary protocol) ---------------------------------------------------------------------------------


def answer_field(column: MysqlColumn) -> Field:
    if column.kind in INTEGERS:
        return Field(INTEGERS[column.kind][0][column.unsigned])
    fixed = {"float": "f", "double": "d", "year": "H"}.get(column.kind, "")
    return Field(fixed) if fixed else Field(prefix=1 if column.kind in ("date", "datetime", "timestamp") else 0)


def answer_finish(column: MysqlColumn, type_: t.Type) -> v.Finish:
    """The text of an answer is UTF-8 whatever the column's character set: the connection asks for that."""
    arrow = arrow_type(type_)
    if column.kind in INTEGERS and type_.name == "decimal":
        return v.decimal_integers(arrow)
    if column.kind == "decimal":
        return v.decimal_text(arrow)
    if column.kind == "bit":
        return _bits(column, arrow)
    if column.kind == "date":
        return _through(v.date_in_answer, pa.int32(), arrow)
    if column.kind in ("datetime", "timestamp"):
        return _through(v.datetime_in_answer, pa.int64(), arrow)
    return v.utf8 if type_ == t.STRING else v.plain(arrow)


def _bits(column: MysqlColumn, arrow: pa.DataType) -> v.Finish:
    if column.precision == 1:
        return v.mapped(lambda raw: raw != b"\0", arrow)
    return v.mapped(v.bits, arrow) if column.precision < 64 else v.decimal_integers(arrow, v.bits)


def _through(convert: v.Convert, storage: pa.DataType, arrow: pa.DataType) -> v.Finish:
    """Days or microseconds as integers, then the same bits as a date or a time."""
    finish = v.mapped(convert, storage)
    return lambda values: finish(values).view(arrow)


# -- from the binlog --------------------------------------------------------------------------------------------------


def log_finish(column: MysqlColumn, type_: t.Type, tables: CharacterTables) -> v.Finish:
    arrow = arrow_type(type_)
    if column.kind == "decimal":
        return v.decimal_integers(arrow, v.packed_decimal(column.precision, column.scale or 0))
    if column.kind == "mediumint":
        return v.mapped(v.three_bytes(not column.unsigned), arrow)
    if column.kind == "year":
        return v.mapped(v.year, arrow)
    if column.kind == "date":
        return _through(v.date_in_log, pa.int32(), arrow)
    if column.is_old:
        return _through(old_temporals.in_log(column.kind, column.fraction), pa.int64(), arrow)
    if column.kind == "datetime":
        return _through(v.datetime_in_log, pa.int64(), arrow)
    if column.kind == "timestamp":
        return _through(v.timestamp_in_log, pa.int64(), arrow)
    if column.kind == "enum":
        return v.mapped(v.choice(column.members), arrow)
    if column.kind == "set":
        return v.mapped(v.choices(column.members), arrow)
    if column.kind == "binary":
        return v.mapped(v.padded(column.length), arrow)
    if column.kind in TEXTS:
        return _log_text(column, tables)
    return answer_finish(column, type_)


def _log_text(column: MysqlColumn, tables: CharacterTables) -> v.Finish:
    assert column.characters is not None
    if column.characters == "ucs2":
        return v.ucs2
    if column.characters in CODECS:
        return v.encoded(CODECS[column.characters])
    return v.utf8 if column.characters in UTF8 else v.by_table(tables[column.characters])
