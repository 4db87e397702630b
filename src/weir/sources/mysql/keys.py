"""Keys of a lookup: which are sent, in which batches, and how the server compares them.

Keys travel as bound values of a prepared statement, in batches of a few fixed sizes so that the server prepares few
statements; the last batch is filled up by repeating a key. Measured per key: one column 6 µs in batches of 512; two
columns 10 µs in batches of 64, and 27 µs in batches of 512, where MariaDB no longer reads ranges of the index; as a
chain of ORs 56 µs.

Text is bound in UTF-8 and must be compared in the column's character set. Left to itself MariaDB refuses a key that
the set cannot hold, and compares keys of several columns without converting them, so each key is converted where it
stands: the column stays as it is, and its index serves. A character that the set lacks becomes a question mark, which
may find more rows than asked for, and the caller drops them. It never finds fewer but where several codes of a set
stand for one character (the gaps of cp1250, say, are all shown as question marks): then the whole table is fetched.

Two keys that differ for us may be equal under a column's collation, and find the same row. IN finds it once; but not
if the two are in different batches. So where text needs several batches, each takes only what is equal byte by byte.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from weir.algebra.hops import Lookup
from weir.algebra.quoting import backquoted
from weir.algebra.types import Row
from weir.sources.mysql.columns import CODECS, UTF8, CharacterTables, MysqlColumn

BATCHES = (1, 8, 64, 512)  # keys per statement, of one column
BATCHES_OF_TUPLES = (1, 8, 64)
_MOST_BYTES = 1 << 20  # of keys per statement; the smallest max_allowed_packet in use is far above


BoundCondition = tuple[str, list[Any]]  # a condition and the values bound in it


def asked(
    lookup: Lookup, columns: Sequence[MysqlColumn], characters: CharacterTables
) -> Iterator[BoundCondition] | None:
    """What to ask for, one after the other; None: the whole table. ``columns`` are the lookup's key columns."""
    if lookup.keys is None:
        return None
    keys = [row for row, _ in lookup.keys.keep(lookup.key_columns).items()]
    if any(_is_ambiguous(column, (key[at] for key in keys), characters) for at, column in enumerate(columns)):
        return None
    return _questions(columns, list(_batches(dict.fromkeys(map(sendable, keys)), columns)))


def _questions(columns: Sequence[MysqlColumn], batches: Sequence[Sequence[Row]]) -> Iterator[BoundCondition]:
    exactly = len(batches) > 1 and any(column.characters for column in columns)
    for batch in batches:
        where, values = condition(columns, len(batch)), [value for key in batch for value in key]
        if exactly:
            where = f"{where} AND {_condition(map(_bytes, columns), ['?'] * len(columns), len(batch))}"
            values += [value.encode() if isinstance(value, str) else value for value in values]
        yield where, values


def condition(columns: Sequence[MysqlColumn], many: int) -> str:
    """That the columns are one of so many keys."""
    return _condition((backquoted(column.name) for column in columns), list(map(_bound, columns)), many)


def _condition(sides: Iterable[str], places: Sequence[str], many: int) -> str:
    mine, one = ", ".join(sides), ", ".join(places)
    if len(places) == 1:
        return f"{mine} IN ({', '.join([one] * many)})"
    return f"({mine}) IN ({', '.join([f'({one})'] * many)})"


def _bytes(column: MysqlColumn) -> str:
    """A text column as its bytes in UTF-8."""
    name = backquoted(column.name)
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)" if column.characters else name


def _bound(column: MysqlColumn) -> str:
    """The place of one value: text is converted, with the column's own collation, to the column's character set."""
    if column.characters in (None, "utf8mb4"):  # as which it is bound
        return "?"
    return f"CONVERT(? USING {column.characters}) COLLATE {column.collation}"


def _is_ambiguous(column: MysqlColumn, values: Iterable[object], characters: CharacterTables) -> bool:
    """Whether one of the values can be held in several codes of the column's character set."""
    if column.kind == "set" and "" in column.members:
        return True  # a set of nothing and a set of the empty text are both shown as the empty text
    if column.characters is None or column.characters in (*UTF8, *CODECS):
        return False
    if column.characters not in characters:
        return True
    shared = {character for character, codes in Counter(characters[column.characters]).items() if codes > 1}
    return bool(shared) and any(not shared.isdisjoint(value) for value in values if isinstance(value, str))


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


def _batches(keys: Iterable[Row | None], columns: Sequence[MysqlColumn]) -> Iterator[list[Row]]:
    sizes = BATCHES if len(columns) == 1 else BATCHES_OF_TUPLES
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
