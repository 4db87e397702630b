"""Questions: rows of a table whose key columns occur among given keys, as Arrow.

Keys travel as bound values of a prepared statement, in batches of a few fixed sizes so that the server prepares few
statements; the last batch is filled up by repeating a key. IN finds a row once however many keys match it: two keys
that differ for us may be equal under a column's collation, and a join would then give its rows twice. Measured per
key: one column 6 µs in batches of 512; two columns 10 µs in batches of 64, and 27 µs in batches of 512, where MariaDB
no longer reads ranges of the index; as a chain of ORs 56 µs.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from weir.algebra.hops import Lookup
from weir.algebra.quoting import backquoted, backquoted_list
from weir.algebra.types import Row
from weir.sources.mysql.changes import WatchedMysqlTable
from weir.sources.mysql.columns import answer_field, answer_finish
from weir.sources.mysql.rows import BINARY_ROW, Layout, compile_layout
from weir.sources.mysql.wire import Statement, length_at
from weir.sources.source import SchemaChanged

BATCHES = (1, 8, 64, 512)  # keys per statement, of one column
BATCHES_OF_TUPLES = (1, 8, 64)
_MOST_BYTES = 1 << 20  # of keys per statement; the smallest max_allowed_packet in use is far above
_MOST_STATEMENTS = 64
_ROWS_PER_BATCH = 20_000


class Reader:
    """Reads tables over one connection; keeps its prepared statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._statements: OrderedDict[str, tuple[Statement, WatchedMysqlTable]] = OrderedDict()

    def answer(self, lookup: Lookup, table: WatchedMysqlTable) -> pa.Table:
        """The rows for a lookup; ``table`` has the lookup's columns."""
        packets: list[bytes] = []
        if lookup.keys is None:
            packets = self._rows(select_from(table), table, ())
        else:
            keys = (sendable(row) for row, _ in lookup.keys.keep(lookup.key_columns).items())
            for batch in _batches(keys, BATCHES if len(lookup.key_columns) == 1 else BATCHES_OF_TUPLES):
                statement = f"{select_from(table)} WHERE {_condition(lookup.key_columns, len(batch))}"
                packets += self._rows(statement, table, [value for key in batch for value in key])
        return to_arrow(table, packets)

    def stream(self, statement: str, table: WatchedMysqlTable, values: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """A large answer, some rows at a time."""
        packets: list[bytes] = []
        prepared = self._prepared(statement, table)
        for packet in prepared.stream(values):
            packets.append(packet)
            if len(packets) == _ROWS_PER_BATCH:
                yield from self._checked_arrow(prepared, table, packets)
                packets = []
        yield from self._checked_arrow(prepared, table, packets)

    def _checked_arrow(
        self, prepared: Statement, table: WatchedMysqlTable, packets: list[bytes]
    ) -> Iterator[pa.RecordBatch]:
        check_types(prepared, table)
        yield from to_arrow(table, packets).to_batches()

    def _rows(self, statement: str, table: WatchedMysqlTable, values: Sequence[Any]) -> list[bytes]:
        prepared = self._prepared(statement, table)
        rows = prepared.run(values)
        check_types(prepared, table)
        return rows

    def _prepared(self, statement: str, table: WatchedMysqlTable) -> Statement:
        known = self._statements.get(statement)
        if known is not None and known[1] == table:
            self._statements.move_to_end(statement)
            return known[0]
        prepared = Statement(self._connection, statement)
        self._statements[statement] = prepared, table
        if len(self._statements) > _MOST_STATEMENTS:
            self._statements.popitem(last=False)[1][0].close()
        return prepared


def select_from(table: WatchedMysqlTable) -> str:
    return f"SELECT {backquoted_list(table.names) or '1'} FROM {backquoted(table.relation.table)}"


def _condition(columns: Sequence[str], many: int) -> str:
    if len(columns) == 1:
        return f"{backquoted(columns[0])} IN ({', '.join('?' * many)})"
    one = f"({', '.join('?' * len(columns))})"
    return f"({backquoted_list(columns)}) IN ({', '.join([one] * many)})"


def sendable(key: Row) -> Row | None:
    """The key as it is bound; None when it can match nothing: NULL, no number, no Unicode text."""
    bound = []
    for value in key:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        if isinstance(value, str) and not _is_unicode(value):
            return None
        bound.append(value)
    return tuple(bound)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _batches(keys: Iterator[Row | None], sizes: Sequence[int]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for key in keys:
        if key is None:
            continue
        batch.append(key)
        size += sum(len(value) if isinstance(value, str | bytes) else 16 for value in key)
        if len(batch) == sizes[-1] or size >= _MOST_BYTES:
            yield _filled(batch, sizes)
            batch, size = [], 0
    if batch:
        yield _filled(batch, sizes)


def _filled(batch: list[Row], sizes: Sequence[int]) -> list[Row]:
    """Up to the next of the fixed sizes, by a key that is there already; a batch of very large keys stays as it is."""
    if sum(len(value) for value in batch[-1] if isinstance(value, str | bytes)) > 4096:
        return batch
    size = next(size for size in sizes if size >= len(batch))
    return batch + [batch[-1]] * (size - len(batch))


def to_arrow(table: WatchedMysqlTable, packets: Sequence[bytes]) -> pa.Table:
    """Binary rows as an Arrow table with our types."""
    raw: list[list[Any]] = [[] for _ in table.columns]
    if not table.columns:
        return pa.table({"": pa.nulls(len(packets))}).select([])
    decode = compile_layout(Layout(tuple(answer_field(column) for column in table.columns), **BINARY_ROW))
    data = b"".join(packets)
    decode(data, 0, len(data), *[values.append for values in raw])
    return pa.table(table.finished(answer_finish, raw), schema=table.schema)


def check_types(prepared: Statement, table: WatchedMysqlTable) -> None:
    """The answer must have the types that we know: a table may be altered between two questions."""
    if prepared.checked is prepared.definitions or prepared.checked == prepared.definitions:
        return
    for column, definition in zip(table.columns, prepared.definitions, strict=False):
        type_, unsigned, decimals = _definition(definition)
        wrong = type_ != column.answer_number or (column.kind in ("decimal",) and decimals != (column.scale or 0))
        if wrong or (column.kind.endswith("int") and unsigned != column.unsigned):
            raise SchemaChanged(
                f"column {table.relation}.{column.name} is no longer {column.declared}; load its views again: weir "
                f"load {table.relation.source}"
            )
    prepared.checked = prepared.definitions


def _definition(packet: bytes) -> tuple[int, bool, int]:
    """(type, unsigned, decimals) of a column's definition, which begins with six texts."""
    at = 0
    for _ in range(6):
        size, at = length_at(packet, at)
        at += size
    flags = int.from_bytes(packet[at + 8 : at + 10], "little")
    return packet[at + 7], bool(flags & 32), packet[at + 10]
