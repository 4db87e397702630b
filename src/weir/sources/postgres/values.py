"""Columns of PostgreSQL's text values as Arrow columns of our types: exact, or refused by name.

Both the change stream and ``COPY`` send text, so one function serves both and they cannot disagree. Arrow's own
parsers do the work; they refuse whatever the type cannot hold (infinite dates, years beyond 9999 or before Christ,
NaN in a decimal), and then the offending value is looked for and named. Nothing is rounded, clipped or replaced.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_type
from weir.algebra.types import Type
from weir.sources.source import SourceError

_LONGEST_SHOWN = 80


def to_arrow(texts: pa.Array, type_: Type, place: str) -> pa.Array:
    """``texts`` is binary, one value a row; ``place`` names table and column in the error."""
    try:
        return _CONVERTERS.get(type_.name, _by_cast)(texts, type_)
    except (pa.ArrowInvalid, ValueError) as problem:
        raise _refusal(texts, type_, place) from problem


def from_fields(fields: Iterable[bytes | None], type_: Type, place: str) -> pa.Array:
    """The same from Python bytes."""
    return to_arrow(pa.array(fields, pa.binary()), type_, place)


def _by_cast(texts: pa.Array, type_: Type) -> pa.Array:
    return pc.cast(pc.cast(texts, pa.string()), arrow_type(type_))


def _string(texts: pa.Array, type_: Type) -> pa.Array:
    return pc.cast(texts, pa.string())  # checks that it is UTF-8


def _boolean(texts: pa.Array, type_: Type) -> pa.Array:
    return pc.equal(texts, pa.scalar(b"t", pa.binary()))


def _binary(texts: pa.Array, type_: Type) -> pa.Array:
    """``\\x0aff`` is two bytes."""
    values = [None if text is None else unhexlify(text[2:]) for text in texts.to_pylist()]
    return pa.array(values, pa.binary())


_CONVERTERS: dict[str, Callable[[pa.Array, Type], pa.Array]] = {
    "string": _string,
    "boolean": _boolean,
    "binary": _binary,
}


def _refusal(texts: pa.Array, type_: Type, place: str) -> SourceError:
    """The error for the first value that does not convert."""
    convert = _CONVERTERS.get(type_.name, _by_cast)
    for text in texts.to_pylist():
        try:
            convert(pa.array([text], pa.binary()), type_)
        except (pa.ArrowInvalid, ValueError):
            shown = text.decode(errors="backslashreplace")
            if len(shown) > _LONGEST_SHOWN:
                shown = shown[:_LONGEST_SHOWN] + "..."
            return SourceError(
                f"{place} holds the value '{shown}', which the type {type_} cannot hold; it is not delivered altered: "
                "change the value (or the column's type) at the source, then load again"
            )
    return SourceError(f"{place}: a value does not fit {type_}")
