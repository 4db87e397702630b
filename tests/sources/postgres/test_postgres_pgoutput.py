"""The decoder of pgoutput, on messages written by hand as the protocol's documentation lays them out."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.sources.postgres.pgoutput import (
    Begin,
    ColumnShape,
    CommitRecord,
    IdentityMissing,
    LogicalMessage,
    ProtocolError,
    RelationShape,
    Truncate,
    Tuples,
    decode,
    relation_of,
)

Cell = bytes | str | None


def row(*cells: Cell) -> bytes:
    """A row: bytes are a value, None is NULL, "u" an unchanged large value."""
    parts = [struct.pack(">H", len(cells))]
    for cell in cells:
        if isinstance(cell, bytes):
            parts.append(b"t" + struct.pack(">I", len(cell)) + cell)
        else:
            parts.append(b"n" if cell is None else b"u")
    return b"".join(parts)


def insert(*cells: Cell) -> bytes:
    return b"I" + struct.pack(">I", 7) + b"N" + row(*cells)


def delete(*cells: Cell, mark: bytes = b"O") -> bytes:
    return b"D" + struct.pack(">I", 7) + mark + row(*cells)


def update(old: tuple[Cell, ...], new: tuple[Cell, ...], mark: bytes = b"O") -> bytes:
    return b"U" + struct.pack(">I", 7) + mark + row(*old) + b"N" + row(*new)


def test_begin_and_commit() -> None:
    """Begin tells where the commit record lies and the 32-bit id; commit tells where it ends."""
    assert decode(b"B" + struct.pack(">QQI", 100, 5, 42)) == Begin(100, 42)
    assert decode(b"C\0" + struct.pack(">QQQ", 100, 148, 5)) == CommitRecord(148)


def test_relation() -> None:
    """A relation message tells names and columns with their types."""
    message = b"R" + struct.pack(">I", 7) + b"public\0odd name\0f" + struct.pack(">H", 2)
    message += b"\1id\0" + struct.pack(">Ii", 23, -1) + b"\0price\0" + struct.pack(">Ii", 1700, 786438)
    columns = (ColumnShape("id", 23, -1), ColumnShape("price", 1700, 786438))
    assert decode(message) == RelationShape(7, "public", "odd name", columns)


def test_an_empty_schema_name_means_pg_catalog() -> None:
    """The protocol shortens pg_catalog to nothing."""
    assert decode(b"R" + struct.pack(">I", 7) + b"\0t\0f\0\0") == RelationShape(7, "pg_catalog", "t", ())


def test_type_origin_message_truncate() -> None:
    """Messages and truncations are understood; names of types and origins are passed over."""
    assert decode(b"Y" + struct.pack(">I", 9) + b"public\0mood\0") is None
    assert decode(b"O" + struct.pack(">Q", 77) + b"elsewhere\0") is None
    assert decode(b"M\1" + struct.pack(">Q", 3) + b"p\0" + struct.pack(">I", 2) + b"ab") == LogicalMessage(
        True, "p", b"ab"
    )
    assert decode(b"T" + struct.pack(">IBII", 2, 3, 7, 8)) == Truncate((7, 8))


def test_unknown_kind_is_named() -> None:
    """A message of a kind that version 1 does not have is an error that names it."""
    with pytest.raises(ProtocolError, match="b'S'"):
        decode(b"S1234")


@pytest.mark.parametrize(
    "message", [b"B123", b"Rx", b"M\1" + bytes(8) + b"p\0" + struct.pack(">I", 9) + b"ab", b"T\0\0\0\2\0"]
)
def test_a_message_cut_short_is_refused(message: bytes) -> None:
    """Nothing is guessed from half a message."""
    with pytest.raises(ProtocolError, match="broken"):
        decode(message)


def test_rows_keep_only_the_wanted_columns_in_the_wanted_order() -> None:
    """Columns are taken by position; the others are skipped."""
    tuples = Tuples(4, [3, 1])
    assert tuples.rows(insert(b"a", b"", None, b"d")) == (None, (b"d", b""))
    assert tuples.rows(delete(b"a", None, b"c", b"d")) == ((b"d", None), None)
    assert relation_of(insert(b"a")) == 7


def test_an_unchanged_large_value_is_the_old_rows() -> None:
    """Under REPLICA IDENTITY FULL the old row has what the new one leaves out."""
    found = Tuples(2, [0, 1]).rows(update((b"1", b"large"), (b"2", "u")))
    assert found == ((b"1", b"large"), (b"2", b"large"))


def test_an_unchanged_value_of_a_column_nobody_wants_is_no_matter() -> None:
    """Only wanted columns need their value."""
    assert Tuples(2, [0]).rows(update((b"1", "u"), (b"2", "u"))) == ((b"1",), (b"2",))


@pytest.mark.parametrize(
    "message",
    [
        update((b"1", b"x"), (b"2", b"x"), mark=b"K"),
        b"U" + struct.pack(">I", 7) + b"N" + row(b"1", b"x"),
        delete(b"1", None, mark=b"K"),
        insert(b"1", "u"),
        update((b"1", "u"), (b"2", "u")),
    ],
)
def test_a_missing_old_row_is_refused(message: bytes) -> None:
    """Without the whole old row there is no exact delete; it is never made up."""
    with pytest.raises(IdentityMissing):
        Tuples(2, [0, 1]).rows(message)


def test_broken_rows_are_refused() -> None:
    """Another number of columns, an unknown kind of value, a missing end."""
    with pytest.raises(ProtocolError, match="3 columns"):
        Tuples(2, [0]).rows(insert(b"1", b"2", b"3"))
    with pytest.raises(ProtocolError, match="unknown kind"):
        Tuples(1, [0]).rows(b"I" + struct.pack(">I", 7) + b"N" + b"\0\1b\0\0\0\1x")
    with pytest.raises(ProtocolError, match="cut short"):
        Tuples(1, [0]).rows(insert(b"abc")[:-1])


@given(st.lists(st.one_of(st.none(), st.binary(max_size=300)), min_size=1, max_size=20), st.data())
def test_any_row_comes_back(cells: list[bytes | None], data: st.DataObject) -> None:
    """Whatever the values and the choice of columns, the wanted values come out as they are."""
    wanted = data.draw(st.lists(st.sampled_from(range(len(cells))), unique=True))
    picked = tuple(cells[at] for at in wanted)
    assert Tuples(len(cells), wanted).rows(insert(*cells)) == (None, picked)
    assert Tuples(len(cells), wanted).rows(update(tuple(cells), tuple(cells))) == (picked, picked)
