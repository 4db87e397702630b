"""Where one transaction ends and the next begins: read from SQLite's write-ahead log.

A trigger cannot know in which transaction it runs. But every transaction that logs a change also moves the one row of
the table ``weir_clock``, which lives on a page of its own; and the write-ahead log (its format is documented and
fixed) holds, for every commit, the pages that it changed, closed by a frame that is marked as a commit. So the
clock's value in the last copy of that page before each commit mark is the number of the last change of that
transaction.

What makes this safe: a boundary is believed only when it lies before the commit of the value that our own snapshot
shows. All frames up to there are committed and never rewritten as long as the log is not begun anew, which its header
would tell. When anything looks unlike that, no boundary is returned: the changes since the last visit then count as
one transaction, and none is ever split.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = "weir"
_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, salt 1 and 2, checksum 1 and 2
_FRAME = struct.Struct(">4I8x")  # page, pages after commit (0: no commit), salt 1 and 2; checksums skipped
_UNSIGNED = [0, 0]  # SQLite 3.40 commits some frames so, after a savepoint with spilled pages was rolled back
_LEAF = 0x0D
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type -> bytes


@dataclass(frozen=True)
class WalPlace:
    """A frame in one generation of the log, from which the next search may start."""

    generation: bytes
    frame: int
    size: int  # bytes of the log before it


def boundaries(
    database: str, page: int, after: int, upto: int, start: WalPlace | None
) -> tuple[list[int], WalPlace | None]:
    """Clock values at the commits in (after, upto], and where to search next; just [upto] when the log cannot tell."""
    try:
        with open(f"{os.path.realpath(database)}-wal", "rb", buffering=0) as log:
            return _search(log.fileno(), page, after, upto, start)
    except OSError:
        return [upto], None


def _search(log: int, page: int, after: int, upto: int, start: WalPlace | None) -> tuple[list[int], WalPlace | None]:
    header = os.pread(log, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return [upto], None
    first = start.frame if start is not None and start.generation == header else 0
    found: list[int] = []
    for frame, clock in _commits(log, header, page, first):
        if clock is None or clock > upto or (found and clock <= found[-1]):
            break  # not a picture we understand
        if clock > after:
            found.append(clock)
        if clock == upto:
            unchanged = os.pread(log, _HEADER.size, 0) == header
            size = frame * (_FRAME.size + _HEADER.unpack(header)[2])
            return (found, WalPlace(header, frame, size)) if unchanged else ([upto], None)
    return [upto], None


def _commits(log: int, header: bytes, page: int, first: int) -> Iterator[tuple[int, int | None]]:
    """(the frame after a commit, the clock then) for every commit that moved the clock; None for a page that is no
    clock.
    """
    _, _, page_size, _, *salts, _, _ = _HEADER.unpack(header)
    size, frame, moved = _FRAME.size + page_size, first, False
    clock: int | None = None
    while len(head := os.pread(log, _FRAME.size, _HEADER.size + frame * size)) == _FRAME.size:
        number, commit, *frame_salts = _FRAME.unpack(head)
        if frame_salts not in (salts, _UNSIGNED):
            return
        if number == page:
            clock, moved = _clock(os.pread(log, page_size, _HEADER.size + frame * size + _FRAME.size)), True
        frame += 1
        if commit and moved:
            yield frame, clock
            moved = False


def _clock(page: bytes) -> int | None:
    """The value in the one row (NULL for the row's number, the magic word, the value) of the clock's page."""
    try:
        if page[0] != _LEAF or int.from_bytes(page[3:5]) != 1:
            return None
        at = int.from_bytes(page[8:10])
        body, kinds = _record(page, at)
        if len(kinds) != 3 or kinds[:2] != [0, 13 + 2 * len(MAGIC)]:
            return None
        if page[body : body + len(MAGIC)] != MAGIC.encode():
            return None
        return _integer(page, body + len(MAGIC), kinds[2])
    except (IndexError, KeyError):
        return None


def _record(page: bytes, at: int) -> tuple[int, list[int]]:
    """Where a cell's values begin, and their serial types."""
    _, at = _varint(page, at)  # length of the cell
    _, at = _varint(page, at)  # number of the row
    length, kind_at = _varint(page, at)
    kinds = []
    while kind_at < at + length:
        kind, kind_at = _varint(page, kind_at)
        kinds.append(kind)
    return at + length, kinds


def _integer(page: bytes, at: int, kind: int) -> int:
    if kind in (8, 9):  # the constants 0 and 1
        return kind - 8
    return int.from_bytes(page[at : at + _INTEGERS[kind]], signed=True)


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(9):
        byte = page[at + step]
        if step == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value, at + step + 1
