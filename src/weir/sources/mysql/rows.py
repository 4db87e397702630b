"""Rows in bytes to columns of values, by a function compiled for one layout.

Both the binlog and the answers of prepared statements send rows as a NULL bitmap and then the values without gaps.
Interpreting that value by value is what makes the usual pure Python decoders slow (17,000 rows of 16 columns per
second were measured). Here the layout is turned into straight Python code once: neighbouring fields of fixed size
become one ``struct`` call, columns that nobody needs cost nothing when fixed and one addition when not. The code
holds numbers only, no name and no value of a database.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from weir.sources.mysql.wire import long_length

Decode = Callable[..., int]  # (data, start, end, *append functions of the kept columns) -> number of rows


@dataclass(frozen=True, slots=True)
class Field:
    """How one value lies in a row: ``fixed`` is a struct code such as ``i`` or ``5s``; otherwise the value follows
    its own length, which takes ``prefix`` bytes (0: a length-coded number). ``kept``: its values are wanted.
    """

    fixed: str = ""
    prefix: int = 0
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a row; ``skip`` bytes before the NULL bitmap, whose first ``offset`` bits mean nothing."""

    fields: tuple[Field, ...]
    skip: int = 0
    offset: int = 0


BINARY_ROW = {"skip": 1, "offset": 2}  # an answer's row: one zero byte, two unused bits


@cache
def compile_layout(layout: Layout) -> Decode:
    """A function that decodes every row between two offsets and appends the kept values column by column."""
    names = _Names()
    bitmap = (len(layout.fields) + layout.offset + 7) // 8
    kept = [at for at, field in enumerate(layout.fields) if field.kept]
    used = ((1 << len(layout.fields)) - 1) << layout.offset
    lines = [
        f"def decode(d, p, end{''.join(f', a{at}' for at in kept)}):",
        "    rows = 0",
        "    while p < end:",
        f"        nulls = from_bytes(d[p + {layout.skip}:p + {layout.skip + bitmap}], 'little') & {used}",
        f"        p += {layout.skip + bitmap}",
        "        if not nulls:",
        *("            " + line for line in _without_nulls(layout, names)),
        "        else:",
        *("            " + line for line in _with_nulls(layout, names)),
        *(f"        a{at}(v{at})" for at in kept),
        "        rows += 1",
        "    if p != end: raise ValueError('a row runs over its end')",
        "    return rows",
    ]
    scope: dict[str, Any] = {"from_bytes": int.from_bytes, "long_length": long_length, **names.unpackers}
    exec("\n".join(lines), scope)
    return scope["decode"]  # type: ignore[no-any-return]


class _Names:
    """The unpackers that the code calls, by name."""

    def __init__(self) -> None:
        self.unpackers: dict[str, Any] = {}

    def unpacker(self, code: str) -> tuple[str, int]:
        packing = struct.Struct("<" + code)
        name = f"s{len(self.unpackers)}"
        self.unpackers[name] = packing.unpack_from
        return name, packing.size


def _without_nulls(layout: Layout, names: _Names) -> list[str]:
    """Runs of fixed fields together, the others one by one."""
    lines: list[str] = []
    run: list[int] = []
    for at, field in enumerate(layout.fields):
        if field.fixed:
            run.append(at)
            continue
        lines += _fixed_run(layout, run, names)
        lines += _counted(field, at)
        run = []
    return (lines + _fixed_run(layout, run, names)) or ["pass"]


def _with_nulls(layout: Layout, names: _Names) -> list[str]:
    lines: list[str] = []
    for at, field in enumerate(layout.fields):
        one = _fixed_run(layout, [at], names) if field.fixed else _counted(field, at)
        bit = 1 << (at + layout.offset)
        lines += [f"if nulls & {bit}:", f"    v{at} = None", "else:", *("    " + line for line in one)]
    return lines or ["pass"]


def _fixed_run(layout: Layout, run: Sequence[int], names: _Names) -> list[str]:
    if not run:
        return []
    fields = [layout.fields[at] for at in run]
    code = "".join(field.fixed if field.kept else f"{struct.calcsize('<' + field.fixed)}x" for field in fields)
    name, size = names.unpacker(code)
    kept = [at for at in run if layout.fields[at].kept]
    lines = [f"{', '.join(f'v{at}' for at in kept)}, = {name}(d, p)"] if kept else []
    return [*lines, f"p += {size}"]


def _counted(field: Field, at: int) -> list[str]:
    if field.prefix == 0:
        length = ["n = d[p]; p += 1", "if n > 250: n, p = long_length(d, p, n)"]
    elif field.prefix == 1:
        length = ["n = d[p]; p += 1"]
    else:
        length = [f"n = from_bytes(d[p:p + {field.prefix}], 'little'); p += {field.prefix}"]
    return [*length, *([f"v{at} = d[p:p + n]"] if field.kept else []), "p += n"]
