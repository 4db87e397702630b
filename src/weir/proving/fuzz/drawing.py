"""A case from a seed: sources of mixed kinds, tables with and without keys, views over them, and changes."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from weir.proving.fuzz.case import FuzzCase, FuzzColumn, FuzzRound, FuzzTable, FuzzTransaction
from weir.proving.fuzz.dialects import DRIVERS, SqlDialect, dialect_of
from weir.proving.fuzz.queries import draw_view
from weir.proving.fuzz.values import NUMBERS, ColumnType, draw_type, pool, type_declared

FUZZED_KINDS = tuple(DRIVERS)
_ODD_NAMES = ("order", "a b", "Größe", "select", "x.y", "it's", 'say "hi"', "UPPER")
_PLAIN_NAMES = ("u", "v", "w", "x", "y", "z")
_ACTS = ("", "", "", "", "", "", "restart", "compact", "verify")


def draw_case(seed: int, kinds: Sequence[str] = FUZZED_KINDS, without: Collection[str] = ()) -> FuzzCase:
    """The case of a seed; the same for the same kinds."""
    dice = random.Random(seed)
    count = dice.choices((1, 2, 3), (3, 5, 1))[0]
    sources = {f"s{number}": dice.choice(list(kinds)) for number in range(1, count + 1)}
    tables = _draw_tables(dice, sources)
    views = [draw_view(dice, f"view_{number}", tables, without) for number in range(1, dice.choice((1, 2, 2, 3)) + 1)]
    fillers = {table.place: TableWriter(dice, sources[table.source], table) for table in tables}
    tables = [replace(table, rows=tuple(fillers[table.place].first_rows())) for table in tables]
    writers = list(fillers.values())
    rounds = tuple(_draw_round(dice, writers, without) for _ in range(dice.choice((1, 2, 2, 3))))
    return FuzzCase(seed, sources, tuple(tables), tuple(views), rounds)


# -- tables ------------------------------------------------------------------------------------------------------------


def _draw_tables(dice: random.Random, sources: dict[str, str]) -> list[FuzzTable]:
    tables: list[FuzzTable] = []
    for source, kind in sources.items():
        most = 3 if len(sources) == 1 else 2
        for number in range(1, dice.randint(1, most) + 1):
            earlier = [table for table in tables if table.source == source]
            tables.append(_draw_table(dice, source, kind, f"t{number}", earlier))
    return tables


def _draw_table(dice: random.Random, source: str, kind: str, name: str, earlier: Sequence[FuzzTable]) -> FuzzTable:
    """A first column that joins go by, and some more; most tables have a key, of one or two columns."""
    dialect = DRIVERS[kind]
    first = draw_type(dice, dialect, NUMBERS if dice.random() < 0.6 else "")
    columns = [_column("k", first)]
    names = dice.sample(_PLAIN_NAMES, dice.randint(1, 4))
    if dice.random() < 0.1:
        names[-1] = dice.choice(_ODD_NAMES)
    columns += [_column(each, draw_type(dice, dialect)) for each in names]
    how = dice.choices(("id", "two", "first", "none"), (4, 1, 1, 3))[0]
    if how in ("id", "two"):
        columns.insert(0, FuzzColumn("id", *_identifier(dialect)))
    key = {"id": ("id",), "two": ("id", "k"), "first": ("k",), "none": ()}[how]
    if not set(key) <= {column.name for column in columns if _can_be_key(dialect, column)}:
        key = ()
    columns = [_not_null(dialect, column) if column.name in key else column for column in columns]
    extra = tuple(_draw_clauses(dice, kind, columns, earlier))
    odd = dice.random() < 0.05
    return FuzzTable(source, dice.choice(("order", "T 1", "Tä")) + name if odd else name, tuple(columns), key, extra)


def _column(name: str, type_: ColumnType) -> FuzzColumn:
    return FuzzColumn(name, type_.declared, type_.type)


def _identifier(dialect: str) -> tuple[str, str]:
    declared = {"sqlite": "INTEGER", "postgres": "int", "mariadb": "INT", "files": "bigint"}[dialect]
    return declared, type_declared(dialect, declared).type


def _can_be_key(dialect: str, column: FuzzColumn) -> bool:
    """MariaDB indexes only a beginning of what has no length; PostgreSQL compares no json; nobody likes NaN."""
    without = {"mariadb": ("TEXT", "BLOB"), "postgres": ("json",)}.get(dialect, ())
    return column.declared not in without and column.type not in ("float", "double")


def _not_null(dialect: str, column: FuzzColumn) -> FuzzColumn:
    if dialect in ("postgres", "files") or column.declared.endswith("NULL"):
        return column
    return column._replace(declared=f"{column.declared} NOT NULL")


def _draw_clauses(
    dice: random.Random, kind: str, columns: Sequence[FuzzColumn], earlier: Sequence[FuzzTable]
) -> Iterator[str]:
    """A foreign key that cascades, where that is logged."""
    parents = [table for table in earlier if table.key == ("id",)]
    numbers = [column.name for column in columns if column.type in ("int", "bigint") and column.name != "id"]
    if DRIVERS[kind] in ("sqlite", "postgres") and parents and numbers and dice.random() < 0.25:
        name, dialect = dialect_of(kind).name, dice.choice(("CASCADE", "SET NULL"))
        parent = dice.choice(parents).name
        yield (
            f"FOREIGN KEY ({name(dice.choice(numbers))}) REFERENCES {name(parent)} ({name('id')}) "
            f"ON DELETE {dialect} ON UPDATE CASCADE"
        )


# -- changes -----------------------------------------------------------------------------------------------------------


class TableWriter:
    """Writes the statements that change one table. Keys may clash: then the database refuses, which is a case too."""

    def __init__(self, dice: random.Random, kind: str, table: FuzzTable) -> None:
        self.dice, self.kind, self.table = dice, kind, table
        self.dialect: SqlDialect = dialect_of(kind)
        self.next = 1

    @property
    def name(self) -> str:
        return self.dialect.name(self.table.name)

    def first_rows(self) -> Iterator[str]:
        for _ in range(self.dice.choice((0, 2, 3, 3, 4, 6))):
            yield self.insert()

    def _types(self) -> Iterator[tuple[FuzzColumn, ColumnType]]:
        for column in self.table.columns:
            declared = column.declared.removesuffix(" NOT NULL")
            yield column, type_declared(DRIVERS[self.kind], declared)

    def value(self, column: FuzzColumn, type_: ColumnType) -> str:
        """A literal for a column, NULL now and then."""
        if column.name not in self.table.key and column.name != "id" and self.dice.random() < 0.15:
            return "NULL"
        return self._literal(self.dice.choice(pool(type_)), column)

    def _literal(self, value: object, column: FuzzColumn) -> str:
        if DRIVERS[self.kind] == "files" and column.type.startswith("decimal"):
            return self.dialect.text(str(value))  # the shadow table keeps it as it is
        return self.dialect.literal(value)

    def row(self) -> str:
        """A new identifier most of the time."""
        values = []
        for column, type_ in self._types():
            if column.name == "id":
                values.append(str(self.next if self.dice.random() < 0.9 else self.dice.randint(1, self.next)))
            else:
                values.append(self.value(column, type_))
        self.next += 1
        return f"({', '.join(values)})"

    def insert(self, verb: str = "INSERT INTO", rows: int = 1) -> str:
        return f"{verb} {self.name} VALUES {', '.join(self.row() for _ in range(rows))}"

    def condition(self) -> str:
        """Some rows, often one; all of them if no column of the table can be compared."""
        columns = [each for each in self._types() if each[0].type not in ("binary",) and "json" not in each[0].declared]
        if not columns:
            return "1 = 1"
        keys = [each for each in columns if each[0].name == "id"]
        column, type_ = self.dice.choice(keys) if keys and self.dice.random() < 0.7 else self.dice.choice(columns)
        if column.name == "id":
            return f"{self.dialect.name('id')} = {self.dice.randint(1, max(self.next - 1, 1))}"
        literal = self._literal(self.dice.choice(pool(type_)), column)
        operator = self.dice.choice(("=", "=", "=", "<>") if column.type == "string" else ("=", "=", "<", ">"))
        return f"{self.dialect.name(column.name)} {operator} {literal}"

    def update(self) -> str:
        """Values, the same value, or a key."""
        types = list(self._types())
        column, type_ = self.dice.choice(types)
        name = self.dialect.name(column.name)
        if self.dice.random() < 0.1:
            new = name
        elif column.name == "id":
            new = f"{name} + {self.dice.choice((1, 10))}"
        else:
            new = self.value(column, type_)
        return f"UPDATE {self.name} SET {name} = {new} WHERE {self.condition()}"

    def statement(self) -> str:
        """Any change."""
        kinds, weights = ("insert", "rows", "update", "delete", "upsert"), (5, 1, 5, 4, 1)
        match self.dice.choices(kinds, weights)[0]:
            case "insert":
                return self.insert()
            case "rows":
                return self.insert(rows=2)
            case "update":
                return self.update()
            case "upsert":
                return self.upsert()
        return f"DELETE FROM {self.name} WHERE {self.condition()}" if self.dice.random() < 0.95 else self.empty()

    def upsert(self) -> str:
        if DRIVERS[self.kind] != "postgres":
            return self.insert("REPLACE INTO")
        if not self.table.key:
            return self.insert()
        listed = ", ".join(map(self.dialect.name, self.table.key))
        last = self.dialect.name(self.table.columns[-1].name)
        return f"{self.insert()} ON CONFLICT ({listed}) DO UPDATE SET {last} = EXCLUDED.{last}"

    def empty(self) -> str:
        return f"DELETE FROM {self.name}"

    @property
    def can_truncate(self) -> bool:
        return DRIVERS[self.kind] in ("postgres", "mariadb")


def _draw_round(dice: random.Random, writers: Sequence[TableWriter], without: Collection[str]) -> FuzzRound:
    transactions = []
    for _ in range(dice.choice((1, 2, 2, 3, 3, 4))):
        writer = dice.choice(writers)
        if writer.can_truncate and "truncate" not in without and dice.random() < 0.02:
            transactions.append(FuzzTransaction(writer.table.source, (f"TRUNCATE TABLE {writer.name}",)))
            continue
        near = [each for each in writers if each.table.source == writer.table.source]
        statements = tuple(dice.choice(near).statement() for _ in range(dice.choice((1, 1, 2, 3))))
        transactions.append(FuzzTransaction(writer.table.source, statements))
    return FuzzRound(tuple(transactions), dice.choice(_ACTS))
