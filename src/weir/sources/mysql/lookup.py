"""Questions: rows of a table whose key columns occur among given keys, as Arrow.

Keys travel as bound values of a prepared statement (``keys.py``); rows come back in binary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from weir.algebra.hops import Lookup
from weir.algebra.quoting import backquoted, backquoted_list
from weir.sources.mysql.changes import WatchedMysqlTable
from weir.sources.mysql.columns import CharacterTables, answer_field, answer_finish
from weir.sources.mysql.keys import asked
from weir.sources.mysql.rows import BINARY_ROW, Layout, compile_layout
from weir.sources.mysql.wire import Statement, length_at
from weir.sources.source import SchemaChanged

_MOST_STATEMENTS = 64
_ROWS_PER_BATCH = 20_000


class Reader:
    """Reads tables over one connection; keeps its prepared statements."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._statements: OrderedDict[str, tuple[Statement, WatchedMysqlTable]] = OrderedDict()

    def answer(
        self, lookup: Lookup, table: WatchedMysqlTable, keys: WatchedMysqlTable, characters: CharacterTables
    ) -> pa.Table:
        """The rows for a lookup; ``table`` has the lookup's columns, ``keys`` its key columns."""
        questions = asked(lookup, keys.columns, characters)
        if questions is None:
            return to_arrow(table, self._rows(select_from(table), table, ()))
        packets: list[bytes] = []
        for condition, values in questions:
            packets += self._rows(f"{select_from(table)} WHERE {condition}", table, values)
        return to_arrow(table, packets)

    def stream(self, statement: str, table: WatchedMysqlTable, values: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """A large answer, some rows at a time."""
        packets: list[bytes] = []
        prepared = self._prepared(statement, table)
        rows = prepared.stream(values)
        try:
            for packet in rows:
                packets.append(packet)
                if len(packets) == _ROWS_PER_BATCH:
                    yield from self._checked_arrow(prepared, table, packets)
                    packets = []
            yield from self._checked_arrow(prepared, table, packets)
        finally:
            for _ in rows:  # what is left unread would be taken for the answer to the next question
                pass

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
        prepared = Statement(self.connection, statement)
        self._statements[statement] = prepared, table
        if len(self._statements) > _MOST_STATEMENTS:
            self._statements.popitem(last=False)[1][0].close()
        return prepared


def select_from(table: WatchedMysqlTable) -> str:
    return f"SELECT {backquoted_list(table.names) or '1'} FROM {backquoted(table.relation.table)}"


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
