"""The text of the triggers that log a table's changes.

``INSERT OR REPLACE`` removes rows without firing a delete trigger (unless the writer turned ``recursive_triggers``
on). So before an insert, or an update of a unique column, a trigger notes the rows that share a unique value with the
new row; afterwards those that are gone are logged as deleted. That is exact for every unique key over columns. A
unique index over an expression cannot be watched so, and such a table is refused.

Between the two other statements may run: a foreign key's action on a row that is replaced, and the triggers that this
sets off. So each note says whose it is (``by``), what happens to a noted row meanwhile happens to its notes, and a row
that is logged as gone has no note left. Notes of rows that stayed do no harm, and the next statement clears them away:
it is another ``moment``, which is the same throughout one statement with all that it sets off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir.algebra.quoting import double_quoted
from weir.sources.sqlite.catalog import TableShape

NEXT = "max(weir_clock.seq, (SELECT coalesce(max(seq), 0) FROM weir_log))"
TICK = "  UPDATE weir_clock SET seq = (SELECT max(seq) FROM weir_log);\n"
EVENTS = ("before_insert", "insert", "before_update", "update", "delete")
_NOW = "julianday('now')"
_NOT_GIVEN = "-1"  # what SQLite says for a row's number, before the insert, when none was given


@dataclass(frozen=True)
class CaptureTriggers:
    """The triggers of one table, as SQL."""

    shape: TableShape
    capture: int

    def all(self) -> Iterator[str]:
        inserter = [self._inserter(f"NEW.{self.shape.rowid}"), self._inserter(_NOT_GIVEN)]
        yield self._trigger("insert", "AFTER INSERT", self._log_replaced(inserter) + self._log("NEW", 1))
        yield self._trigger("delete", "AFTER DELETE", self._forget_old() + self._log("OLD", -1))
        yield self._trigger("update", "AFTER UPDATE", self._after_update() + self._log("NEW", 1))
        # SQLite computes generated columns of NEW, before an update, from those columns only that the trigger uses.
        everything = f"  SELECT {self._columns('NEW.')};\n"
        noted = everything + self._note(self._updater(), self._other_than_old()) + self._note_old()
        yield self._trigger("before_insert", "BEFORE INSERT", self._note(inserter[0], ""))
        yield self._trigger("before_update", "BEFORE UPDATE", noted, f"WHEN {self._unique_changed()}")

    def _trigger(self, event: str, when: str, body: str, condition: str = "") -> str:
        name = double_quoted(f"weir_capture_{event}_{self.shape.name}")
        return f"CREATE TRIGGER {name} {when} ON {self.table} {condition} BEGIN\n{body}END"

    @property
    def table(self) -> str:
        return double_quoted(self.shape.name)

    def _columns(self, of: str = "") -> str:
        return ", ".join(of + double_quoted(name) for name in self.shape.columns)

    def _values(self, of: str = "") -> str:
        return ", ".join(f"{of}v{number}" for number in range(len(self.shape.columns)))

    def _log(self, image: str, weight: int) -> str:
        """Logs one image, and moves the clock to it."""
        return (
            f"  INSERT INTO weir_log (seq, capture, weight, nonce, {self._values()})\n"
            f"    SELECT {NEXT} + 1, {self.capture}, {weight}, random(), {self._columns(f'{image}.')}"
            f" FROM weir_clock;\n{TICK}"
        )

    # -- whose notes, and which row's -------------------------------------------------------------------------------

    def _inserter(self, rowid: str) -> str:
        """Who inserts: by what is unique in the new row, but for values that SQLite may give in place of NULL."""
        names = [name for name in self._unique_columns() if name not in self.shape.defaults]
        number = [rowid] if self.shape.rowid is not None else []
        return " || ".join(["'i'", *number, *_quoted("NEW", names)])

    def _updater(self) -> str:
        return f"'u' || {self._place('OLD')}"

    def _itself(self) -> str:
        return f"'o' || {self._place('OLD')}"

    def _is_itself(self) -> str:
        return f"by = {self._itself()} AND row = +({self._place('OLD')})"

    def _place(self, row: str) -> str:
        """The row's number, or its key as text."""
        if self.shape.rowid is not None:
            return f"{row}.{self.shape.rowid}"
        return " || ".join(_quoted(row, self.shape.key))

    def _same(self, noted: str, row: str) -> str:
        """Whether a noted row and ``row`` have the same place in the table."""
        if self.shape.rowid is not None:
            return f"{row}.{self.shape.rowid} = {noted}.row"
        places = list(self.shape.columns)
        return " AND ".join(f"{row}.{double_quoted(name)} = {noted}.v{places.index(name)}" for name in self.shape.key)

    def _there(self) -> str:
        """Whether a noted row's place is taken, by itself or another."""
        return f"EXISTS\n      (SELECT 1 FROM {self.table} AS weir_row WHERE {self._same('weir_replaced', 'weir_row')})"

    # -- rows that REPLACE removes ----------------------------------------------------------------------------------

    def _note(self, by: str, condition: str) -> str:
        """Before: the rows that share a unique value with the new one."""
        mine = f"weir_replaced WHERE capture = {self.capture}"
        return (
            f"  DELETE FROM {mine} AND moment < {_NOW};\n"
            f"  DELETE FROM {mine} AND moment = {_NOW} AND by = {by} AND {self._there()};\n"
            f"  INSERT INTO weir_replaced (capture, moment, by, row, {self._values()})\n"
            f"    SELECT {self.capture}, {_NOW}, {by}, {self._place('weir_row')}, {self._columns('weir_row.')}\n"
            f"    FROM {self.table} AS weir_row WHERE ({self._conflicts()}) {condition};\n"
        )

    def _conflicts(self) -> str:
        alternatives = [" AND ".join(self._equal(*part) for part in parts) for parts in self.shape.unique]
        if self.shape.rowid is not None:
            alternatives.append(f"weir_row.{self.shape.rowid} = NEW.{self.shape.rowid}")
        return " OR ".join(f"({alternative})" for alternative in alternatives)

    def _equal(self, name: str, collation: str) -> str:
        """REPLACE puts a column's default in place of a NULL that is not allowed."""
        column, default = double_quoted(name), self.shape.defaults.get(name)
        new = f"coalesce(NEW.{column}, {default})" if default is not None else f"NEW.{column}"
        return f"weir_row.{column} = {new} COLLATE {double_quoted(collation)}"

    def _unique_columns(self) -> Sequence[str]:
        return list(dict.fromkeys(name for unique in self.shape.unique for name, _ in unique))

    def _unique_changed(self) -> str:
        """Whether an update touches anything unique, or what a partial index may look at; rows are replaced only then.
        """
        names = list(self.shape.columns) if self.shape.partial else self._unique_columns()
        columns = [*map(double_quoted, names), *([self.shape.rowid] if self.shape.rowid is not None else [])]
        new = ", ".join(f"NEW.{name} COLLATE BINARY" for name in columns)
        return f"({new}) IS NOT ({', '.join(f'OLD.{name}' for name in columns)})"

    def _other_than_old(self) -> str:
        if self.shape.rowid is not None:
            return f"AND weir_row.{self.shape.rowid} IS NOT OLD.{self.shape.rowid}"
        names = map(double_quoted, self.shape.key)
        return f"AND NOT ({' AND '.join(f'weir_row.{name} = OLD.{name}' for name in names)})"

    def _log_replaced(self, by: Sequence[str], condition: str = "") -> str:
        """After: those of them that are gone are logged as deleted. The new row may have taken the place of one."""
        whose = f"capture = {self.capture} AND moment = {_NOW} AND by IN ({', '.join(by)})"
        gone = f"(({self._same('weir_replaced', 'NEW')}) OR NOT {self._there()})"
        number = f"weir_replaced.n - (SELECT min(n) FROM weir_replaced WHERE {whose}) + 1"
        return (
            f"  INSERT INTO weir_log (seq, capture, weight, nonce, {self._values()})\n"
            f"    SELECT {NEXT} + {number}, {self.capture}, -1, random(), {self._values('weir_replaced.')}\n"
            f"    FROM weir_replaced, weir_clock WHERE {whose} {condition}\n    AND {gone};\n"
            f"  DELETE FROM weir_replaced WHERE capture = {self.capture} AND row IN\n"
            f"    (SELECT row FROM weir_replaced WHERE {whose} {condition}\n    AND {gone});\n"
        )

    def _note_old(self) -> str:
        """The row itself, where it may replace others: what that sets off may change it before its turn ends."""
        noted = f"EXISTS (SELECT 1 FROM weir_replaced WHERE capture = {self.capture} AND moment = {_NOW} AND"
        return (
            f"  INSERT INTO weir_replaced (capture, moment, by, row, {self._values()})\n"
            f"    SELECT {self.capture}, {_NOW}, {self._itself()}, {self._place('OLD')}, {self._columns('OLD.')}\n"
            f"    WHERE {noted} by = {self._updater()}) AND NOT {noted} {self._is_itself()});\n"
        )

    def _after_update(self) -> str:
        """The row's own notes, the row as it was last, then what others have noted of it: it looks different now."""
        own = self._log_replaced([self._updater()], f"AND {self._unique_changed()}")
        values = ", ".join(f"v{at} = NEW.{double_quoted(name)}" for at, name in enumerate(self.shape.columns))
        mirrored = f"  UPDATE weir_replaced SET row = {self._place('NEW')}, {values} WHERE {self._of_old()};\n"
        return own + self._log_last() + mirrored

    def _log_last(self) -> str:
        """The old image: as it was noted, if it was, since SQLite's OLD does not know of changes in between."""
        noted = "weir_replaced.n IS NOT NULL"
        names = enumerate(map(double_quoted, self.shape.columns))
        values = ", ".join(f"CASE WHEN {noted} THEN weir_replaced.v{at} ELSE OLD.{name} END" for at, name in names)
        return (
            f"  INSERT INTO weir_log (seq, capture, weight, nonce, {self._values()})\n"
            f"    SELECT {NEXT} + 1, {self.capture}, -1, random(), {values}\n"
            f"    FROM weir_clock LEFT JOIN weir_replaced ON capture = {self.capture} AND moment = {_NOW}\n"
            f"    AND {self._is_itself()} AND {self._unique_changed()};\n{TICK}"
        )

    def _forget_old(self) -> str:
        """With ``recursive_triggers`` on, a replaced row comes as a delete of its own."""
        return f"  DELETE FROM weir_replaced WHERE {self._of_old()};\n"

    def _of_old(self) -> str:
        """Notes of this very row: one that has just replaced another, and is changed by a foreign key, has its place.

        The plus takes the column's affinity away, with which SQLite would not use the index.
        """
        image = f"({self._values()}) IS ({self._columns('OLD.')})"
        return f"capture = {self.capture} AND row = +({self._place('OLD')}) AND ({image} OR by = {self._itself()})"


def _quoted(row: str, names: Sequence[str]) -> Iterator[str]:
    return (f"quote({row}.{double_quoted(name)})" for name in names)
