"""Scalar SQL for views: typed well enough that Spark takes it, and such that no row makes it fail.

What can fail on a row (an overflow, a cast of any text to a number) would stop the view with good reason, and a stopped
view proves nothing more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from weir.proving.fuzz.values import BYTES, DATES, FLOATS, INSTANTS, MOMENTS, NUMBERS, TEXTS, TRUTHS, family_of

SPARK_ONLY, STRUCTS, FLOAT_TEXTS, ODD_PRECEDENCE = "spark-only", "structs", "float-texts", "odd-precedence"
_LITERALS = {
    NUMBERS: ("0", "1", "2", "1.50", "-1", "3"),
    TEXTS: ("'a'", "''", "'b'", "'ä'", "'1'", "'a '"),
    FLOATS: ("1.5e0", "0e0", "1e0", "CAST('NaN' AS DOUBLE)"),
    BYTES: ("X'61'", "X''"),
    TRUTHS: ("TRUE", "FALSE"),
    DATES: ("DATE'2020-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'"),
    MOMENTS: ("TIMESTAMP_NTZ'2020-01-01 00:00:00'",),
    INSTANTS: ("TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-02-29 12:30:00'"),
}
_PATTERNS = ("'a%'", "'_'", "'%b'", "'a\\\\_b'", "'%'", "'A%'", "'%ä%'")


class TypedColumn(NamedTuple):
    """A column as an expression names it."""

    sql: str
    type: str

    @property
    def family(self) -> str:
        return family_of(self.type)


class ExpressionWriter:
    """Writes expressions over some columns. ``without``: features that are left out."""

    def __init__(self, dice: random.Random, columns: Sequence[TypedColumn], without: Collection[str] = ()) -> None:
        self.dice, self.columns, self.without = dice, columns, without

    def _of(self, family: str) -> list[TypedColumn]:
        return [column for column in self.columns if column.family == family]

    def operand(self, family: str, beside: TypedColumn | None = None) -> str:
        """A column of the family other than the one ``beside``, or a literal."""
        found = [column for column in self._of(family) if column != beside]
        if found and self.dice.random() < 0.8:
            return self.dice.choice(found).sql
        return self.dice.choice(_LITERALS[family])

    def any_column(self) -> TypedColumn:
        return self.dice.choice(self.columns)

    # -- conditions ----------------------------------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> str:
        if depth and self.dice.random() < 0.3:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return self.dice.choice((f"({left}) OR ({right})", f"({left}) AND ({right})", f"NOT ({left})"))
        column = self.any_column()
        ways: list[Callable[[TypedColumn], str]] = [
            self._compared, self._compared, self._null, self._listed, self._between, self._cased,
        ]  # fmt: skip
        if column.family == TEXTS:
            ways += [self._like, self._like]
        if column.family == TRUTHS:
            ways += [lambda each: each.sql]
        return self.dice.choice(ways)(column)

    def _compared(self, column: TypedColumn) -> str:
        if ODD_PRECEDENCE not in self.without and self.dice.random() < 0.03:
            return f"{self.operand(TRUTHS)} <=> {self.operand(TRUTHS)} < {self.operand(TRUTHS)}"
        operator = self.dice.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
        other = self.operand(column.family, column)
        return f"{column.sql} {operator} {other}"

    def _null(self, column: TypedColumn) -> str:
        return f"{column.sql} IS {self.dice.choice(('', 'NOT '))}NULL"

    def _listed(self, column: TypedColumn) -> str:
        listed = ", ".join(self.operand(column.family, column) for _ in range(self.dice.randint(1, 3)))
        null = ", NULL" if self.dice.random() < 0.1 else ""
        return f"{column.sql} {self.dice.choice(('', 'NOT '))}IN ({listed}{null})"

    def _between(self, column: TypedColumn) -> str:
        return f"{column.sql} BETWEEN {self.operand(column.family, column)} AND {self.operand(column.family, column)}"

    def _like(self, column: TypedColumn) -> str:
        return f"{column.sql} {self.dice.choice(('', 'NOT '))}LIKE {self.dice.choice(_PATTERNS)}"

    def _cased(self, column: TypedColumn) -> str:
        return f"CASE WHEN {self._null(column)} THEN {self.condition(0)} ELSE {self._compared(column)} END"

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self) -> str:
        """Of the select list: a plain column most of the time."""
        column = self.any_column()
        if self.dice.random() < 0.45:
            return column.sql
        ways: list[Callable[[TypedColumn], str]] = [self._either, self._either, self._chosen, self._as_text]
        if (own := _WAYS.get(column.family)) is not None:
            ways += [lambda each: own(self, each)] * 3
        if SPARK_ONLY not in self.without:
            ways += [self._by_spark, self._by_spark]
        return self.dice.choice(ways)(column)

    def _either(self, column: TypedColumn) -> str:
        other = self.operand(column.family, column)
        return self.dice.choice((f"COALESCE({column.sql}, {other})", f"NULLIF({column.sql}, {other})"))

    def _chosen(self, column: TypedColumn) -> str:
        end = self.dice.choice((f" ELSE {self.operand(column.family, column)}", ""))
        return f"CASE WHEN {self.condition(1)} THEN {column.sql}{end} END"

    def _as_text(self, column: TypedColumn) -> str:
        if column.family == BYTES or (column.family == FLOATS and FLOAT_TEXTS in self.without):
            return column.sql
        return self.dice.choice((f"CAST({column.sql} AS STRING)", f"{column.sql} || '|'"))

    def _by_spark(self, column: TypedColumn) -> str:
        """Functions that only Spark knows."""
        other = self.any_column()
        text = self._as_text(column) if column.family != BYTES else f"hex({column.sql})"
        ways = [f"sha2({text}, 256)", f"concat_ws('-', {text}, 'x')", f"length({text})", f"upper({text})",
                f"substring({text}, 1, 2)", f"hash({text})"]  # fmt: skip
        if column.family == DATES:
            ways += [f"year({column.sql})", f"date_format({column.sql}, 'yyyy')", f"last_day({column.sql})"]
        if column.family == NUMBERS:
            ways += [f"abs({column.sql})", f"greatest({column.sql}, {self.operand(NUMBERS)})"]
        if STRUCTS not in self.without and FLOATS not in (column.family, other.family):
            ways += [f"to_json(struct({column.sql}, {other.sql} AS f))", f"to_json(struct({column.sql}))"]
        return self.dice.choice(ways)


def _number(writer: ExpressionWriter, column: TypedColumn) -> str:
    """Wide enough for whatever the pools hold."""
    wide = f"CAST({column.sql} AS DECIMAL(25,2))" if "38" not in column.type else "1.50"
    other = writer.dice.choice(("1", "2", "1.50", "0.5"))
    return writer.dice.choice((
        f"{wide} + {other}", f"{wide} * {other}", f"{wide} - {other}", f"-{wide}", f"{wide} / 4", f"{wide} % 3",
        f"CAST({column.sql} AS DOUBLE)", f"CAST({column.sql} AS DECIMAL(30,1))" if "38" not in column.type else wide,
    ))  # fmt: skip


def _text(writer: ExpressionWriter, column: TypedColumn) -> str:
    return writer.dice.choice((
        f"{column.sql} || {writer.operand(TEXTS)}", f"TRY_CAST({column.sql} AS INT)", f"CAST({column.sql} AS BINARY)",
        f"TRY_CAST({column.sql} AS DECIMAL(10,2))", f"TRY_CAST({column.sql} AS DOUBLE)",
    ))  # fmt: skip


def _float(writer: ExpressionWriter, column: TypedColumn) -> str:
    return writer.dice.choice((
        f"{column.sql} * 2", f"{column.sql} + 0.1e0", f"-{column.sql}", f"CAST({column.sql} AS DOUBLE) / 3",
        f"CAST({column.sql} AS FLOAT)", f"TRY_CAST({column.sql} AS DECIMAL(38,2))",
    ))  # fmt: skip


def _date(writer: ExpressionWriter, column: TypedColumn) -> str:
    return writer.dice.choice((
        f"CAST({column.sql} AS TIMESTAMP_NTZ)", f"CAST({column.sql} AS TIMESTAMP)",
        f"CASE WHEN {column.sql} < DATE'9999-01-01' THEN {column.sql} + 1 END",
        f"CASE WHEN {column.sql} > DATE'0002-01-01' THEN date_add({column.sql}, -30) END",
    ))  # fmt: skip


def _moment(writer: ExpressionWriter, column: TypedColumn) -> str:
    return writer.dice.choice((f"CAST({column.sql} AS DATE)", f"CAST({column.sql} AS STRING)"))


_WAYS: dict[str, Callable[[ExpressionWriter, TypedColumn], str]] = {
    NUMBERS: _number, TEXTS: _text, FLOATS: _float, DATES: _date, MOMENTS: _moment, INSTANTS: _moment,
}  # fmt: skip
