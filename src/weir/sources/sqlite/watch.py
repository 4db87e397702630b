"""Whether a SQLite table can be watched, and whether it is still the one that was:

shapes and triggers against the capture.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from weir.algebra.catalog import Relation
from weir.algebra.types import Column, Schema, Type
from weir.sources.ownership import is_foreign
from weir.sources.source import LOAD_AGAIN, CannotWatch, Description, Finding, LoadAgain, SchemaChanged
from weir.sources.sqlite.capture import INSTALL, active, fault, obstacle
from weir.sources.sqlite.catalog import TableShape, about_rows, mapped_type, no_tables, read_shape, table_names
from weir.sources.sqlite.reader import foreign_log, reader_of


def describe(database: sqlite3.Connection, source: str, path: str, owner: str = "") -> Description:
    """All tables, with what is missing before they can be watched."""
    shapes = [shape for name in table_names(database) if (shape := read_shape(database, name))]
    findings = [finding for shape in shapes for finding in _findings(database, shape)]
    if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        findings.insert(0, Finding("error", f"{path} is not in WAL mode", INSTALL))
    if is_foreign(owner, found := reader_of(database)):
        findings.insert(0, Finding("error", *foreign_log(path, found or "")))
    return Description(
        tuple(shape.described(source) for shape in shapes),
        {Relation(source, shape.name): shape.unmapped for shape in shapes if shape.unmapped},
        tuple(findings),
        {Relation(source, shape.name): rows for shape in shapes if (rows := about_rows(database, shape)) is not None},
        {Relation(source, name): why for name, why in no_tables(database).items()},
    )


def _findings(database: sqlite3.Connection, shape: TableShape) -> Iterator[Finding]:
    if problem := capture_problem(database, shape):
        yield Finding("error", f"table '{shape.name}' {problem}", INSTALL, shape.name)
    elif lacks_columns(database, shape):
        yield Finding("warning", f"table '{shape.name}' has columns that are not captured yet", INSTALL, shape.name)


def lacks_columns(database: sqlite3.Connection, shape: TableShape) -> bool:
    """Whether a captured table has columns that came after its capture."""
    capture = active(database, shape.name)
    return capture is not None and bool(set(shape.columns) - set(capture.columns))


def capture_problem(database: sqlite3.Connection, shape: TableShape) -> str:
    """What keeps the table's changes from being seen, if anything."""
    try:
        capture = active(database, shape.name)
    except sqlite3.OperationalError:  # no weir_capture at all
        capture = None
    if capture is None:
        return "is not captured"
    return fault(database, shape, capture) or obstacle(database, shape)


def watched_schema(database: sqlite3.Connection, relation: Relation, names: Sequence[str]) -> Schema:
    """The types of the columns to be watched; refuses by name what cannot be."""
    shape = read_shape(database, relation.table)
    if shape is None or shape.name != relation.table:
        raise SchemaChanged(f"source '{relation.source}' has no table '{relation.table}'")
    problem = capture_problem(database, shape)
    capture = None if problem else active(database, shape.name)
    if capture is None:
        raise CannotWatch(f"source '{relation.source}': table '{relation.table}' {problem}: {INSTALL}")
    for name in names:
        if name not in shape.columns:
            raise SchemaChanged(f"table {relation} has no column '{name}'; it has {', '.join(shape.columns)}")
        if name not in capture.columns:
            raise CannotWatch(f"table {relation}: column '{name}' is newer than the capture: {INSTALL}")
    return Schema(Column(name, _type(relation, name, shape.columns[name])) for name in names)


def _type(relation: Relation, name: str, declared: str) -> Type:
    type_ = mapped_type(declared)
    if type_ is None:
        raise SchemaChanged(
            f"table {relation}, column '{name}': the declared type '{declared}' does not say what it holds; use "
            "INTEGER, REAL, TEXT, BLOB, BOOLEAN, DATE, DATETIME or DECIMAL(p,s), or leave it out of the view"
        )
    return type_


def check_unchanged(database: sqlite3.Connection, relation: Relation, schema: Schema) -> None:
    """Raises when the table is no longer the one that is watched, or changes of it may be missing from the log."""
    shape = read_shape(database, relation.table)
    if shape is None:
        raise SchemaChanged(f"table {relation} is gone: drop its views, or bring it back and {LOAD_AGAIN}")
    for column in schema:
        _check_column(relation, column, shape)
    if problem := capture_problem(database, shape):
        raise LoadAgain(f"table {relation} {problem}; changes may be missing: {INSTALL}, then {LOAD_AGAIN}")


def _check_column(relation: Relation, column: Column, shape: TableShape) -> None:
    declared = shape.columns.get(column.name)
    if declared is None:
        raise SchemaChanged(f"table {relation} lost column '{column.name}': change its views, then {LOAD_AGAIN}")
    if mapped_type(declared) != column.type:
        was = f"column '{column.name}' was {column.type}"
        raise SchemaChanged(f"table {relation}: {was} and is now declared '{declared}': {LOAD_AGAIN}")
