"""What the folder of snapshots has: tables, their columns, and which snapshots are ready to be delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.algebra.catalog import Relation, Table
from weir.algebra.types import Column, Schema
from weir.sources.files.options import FilesOptions
from weir.sources.files.shapes import differences, read_columns, read_rows
from weir.sources.files.snapshots import Incomplete, Shelf, TableSnapshot
from weir.sources.source import LOAD_AGAIN, CannotWatch, Description, Finding, SchemaChanged, SourceError

SnapshotStep = tuple[str, dict[Relation, TableSnapshot]]  # a name, and the tables that have a new snapshot of that name


@dataclass(frozen=True)
class FilesCatalogue:
    """The folder, as the options say to look at it."""

    options: FilesOptions

    def shelf(self, table: str) -> Shelf:
        return Shelf(Path(self.options.folder), table, self.options.trust_renames)

    def tables(self) -> list[str]:
        folder = Path(self.options.folder)
        try:
            return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(("_", ".")))
        except OSError as problem:
            raise SourceError(
                f"source '{self.options.name}': the folder {folder} cannot be read: {problem.strerror or problem}"
            ) from None

    def newest(self, table: str) -> tuple[TableSnapshot | None, str]:
        """The newest complete snapshot, and why there is none newer."""
        shelf, reason = self.shelf(table), ""
        for name in reversed(shelf.names()):
            try:
                return shelf.open(name), reason
            except Incomplete as problem:
                reason = reason or f"snapshot '{name}' of table '{table}' waits: {problem}"
        return None, reason or f"table '{table}' has no snapshot"

    # -- shapes -----------------------------------------------------------------------------------------------------

    def schema(self, relation: Relation, names: Sequence[str]) -> Schema:
        """All columns of a table that can be used; refuses by name what cannot be."""
        snapshot, reason = self.newest(relation.table)
        if snapshot is None:
            raise CannotWatch(f"source '{relation.source}': {reason}")
        schema, unmapped = self._columns(snapshot)
        for name in names:
            if name in unmapped:
                raise SchemaChanged(
                    f"table {relation}, column '{name}': the type {unmapped[name]} has no place in a view"
                )
            if name not in schema.names:
                raise SchemaChanged(f"table {relation} has no column '{name}'; it has {', '.join(schema.names)}")
        if strangers := [n for n in self.options.keys.get(relation.table, ()) if n not in schema.names]:
            raise CannotWatch(f"table {relation}: the declared key names '{strangers[0]}', which is no column of it")
        return schema

    def _columns(self, snapshot: TableSnapshot) -> tuple[Schema, dict[str, str]]:
        declared = self.options.declared(snapshot.table)
        if declared is not None:
            if binary := [c.name for c in declared if c.type.name == "binary" and snapshot.format == "csv"]:
                raise SourceError(f"table '{snapshot.table}', column '{binary[0]}': CSV cannot hold binary values")
            return declared, {}
        if snapshot.format == "csv":
            raise SourceError(
                f"source '{self.options.name}': CSV says nothing of types: declare the columns of table "
                f"'{snapshot.table}', as "
                f'schemas = {{"{snapshot.table}": "id bigint, name string"}}'
            )
        mapped, unmapped = read_columns(snapshot.files[0].path)
        return Schema(Column(name, type_) for name, type_ in mapped.items()), unmapped

    def check_shape(self, relation: Relation, snapshot: TableSnapshot, wanted: Schema) -> None:
        """Every Parquet file has the wanted columns, as they were; CSV is checked when it is converted."""
        for file in snapshot.files if snapshot.format == "parquet" else ():
            mapped, unmapped = read_columns(file.path)
            now: dict[str, object] = {**mapped, **unmapped}
            if problems := differences(now, {column.name: column.type for column in wanted}):
                raise SchemaChanged(
                    f"table {relation}, {file.path}: {'; '.join(problems)}. Write the snapshot again as before, or "
                    f"change the views and {LOAD_AGAIN}"
                )

    # -- steps ------------------------------------------------------------------------------------------------------

    def steps(self, after: Mapping[Relation, str]) -> tuple[list[SnapshotStep], tuple[Finding, ...]]:
        """The snapshots behind these names that can be delivered, in order, and the newer ones that must wait."""
        found: dict[str, dict[Relation, TableSnapshot]] = {}
        waiting: dict[str, list[str]] = {}
        for relation, name in after.items():
            for next_name, snapshot in self._complete(relation, name, waiting):
                found.setdefault(next_name, {})[relation] = snapshot
        if self.options.together:
            for name in sorted(found):
                if missing := sorted(r.table for r in after if r not in found[name] and after[r] < name):
                    waiting.setdefault(name, [f"snapshot '{name}' waits for the same of {', '.join(missing)}"])
                    del found[name]
        last = max(found, default="")
        held = [Finding("warning", text) for name in sorted(waiting) if name > last for text in waiting[name]]
        return sorted(found.items()), tuple(held)

    def complete(self, relation: Relation) -> list[TableSnapshot]:
        """All that are, in order."""
        return [snapshot for _, snapshot in self._complete(relation, "", {})]

    def _complete(
        self, relation: Relation, after: str, waiting: dict[str, list[str]]
    ) -> Iterator[tuple[str, TableSnapshot]]:
        shelf = self.shelf(relation.table)
        for name in shelf.names(after):
            try:
                yield name, shelf.open(name)
            except Incomplete as problem:
                waiting.setdefault(name, []).append(f"snapshot '{name}' of table '{relation.table}' waits: {problem}")

    # -- describe ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        tables, unmapped, findings, rows = [], {}, [], {}
        for name in self.tables():
            snapshot, reason = self.newest(name)
            if reason:
                findings.append(Finding("warning" if snapshot else "error", reason, table=name))
            if snapshot is None:
                continue
            try:
                schema, others = self._columns(snapshot)
            except SourceError as problem:
                findings.append(Finding("error", str(problem), table=name))
                continue
            relation = Relation(self.options.name, name)
            tables.append(Table(relation, schema, tuple(self.options.keys.get(name, ()))))
            if others:
                unmapped[relation] = others
            if snapshot.format == "parquet":
                rows[relation] = sum(read_rows(file.path) for file in snapshot.files)
        return Description(tuple(tables), unmapped, tuple(findings), rows)
