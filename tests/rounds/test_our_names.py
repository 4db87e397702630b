"""Names that Weir uses itself, as names of the user's tables, columns, aliases and outputs: they cannot collide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.runtime.shop import Shop
from weir.algebra.bag import WEIGHT
from weir.algebra.errors import ViewError
from weir.algebra.quoting import backquoted, double_quoted
from weir.algebra.types import BIGINT, Schema
from weir.algorithms.sweeping import ARRIVAL, VALIDITY
from weir.sources.source import TRANSACTION
from weir.sweeping.packed import NUMBER
from weir.warehouse.columns import check_columns
from weir.warehouse.errors import BadColumns

OpenShop = Callable[..., Shop]
Row = tuple[Any, ...]

X, Y = "__weight", "count"  # tables
STORED = ("_weir_weight", "_weir_arrival", "_weir_hash")  # a view's own table has these: outputs need AS
OF_BAGS = ("__arrival", "__validity", "__weight", "__transaction", "__number", "__seq", "__xid")
OF_FRAMES = ("weight", "c0", "key0", "count", "expected", "rows")
OF_OTHERS = ("_metadata", "_change_type", "_commit_version", "*", ".a", "[0]", "a.b", "%s", "%(a)s", ":p", "?", "$1")
HARD = ("{x}", "a b", "x" * 150, "key 0", "added 0")
NAMES = (*OF_BAGS, *OF_FRAMES, *STORED, *OF_OTHERS, *HARD)
COLUMNS = ("id", "ref", *NAMES)
SEVERAL = ("pvm-cc", "copies", "equal-partition", "t-strobe", "ring")
ONE = ("eca", "recompute")


def row_of(number: int, ref: int) -> Row:
    return (number, ref, *(number * 1000 + at for at in range(len(NAMES))))


def created(quoted: Callable[[str], str], table: str, rows: Sequence[Row]) -> list[str]:
    columns = ", ".join(f"{quoted(name)} bigint" for name in COLUMNS[1:])
    return [
        f"CREATE TABLE {quoted(table)} (id bigint PRIMARY KEY NOT NULL, {columns})",
        f"INSERT INTO {quoted(table)} VALUES {', '.join(map(str, rows))}",
    ]


def named(alias: str, names: Sequence[str], prefix: str = "") -> Iterator[str]:
    """Columns; under their own names where a Delta table takes them."""
    for at, name in enumerate(names):
        try:
            check_columns(Schema.of(**{name: BIGINT}))
            given = "" if not prefix else f" AS {backquoted(prefix + name)}"
        except BadColumns:
            given = f" AS {prefix}hard{at}"
        yield f"{alias}.{backquoted(name)}{given}"


def joined(x: str, y: str) -> str:
    """By columns of such names, from tables and under aliases of such names."""
    return (
        f"SELECT `__arrival`.id AS k1, `__transaction`.id AS k2, {', '.join(named('`__arrival`', NAMES))}, "
        f"{', '.join(named('`__transaction`', OF_BAGS, 'y_'))} FROM {x} `__arrival` JOIN {y} `__transaction` "
        f"ON `__transaction`.ref = `__arrival`.ref AND `__transaction`.ref + 0 = `__arrival`.ref "
        f"WHERE `__arrival`.`__weight` > 0 AND `__transaction`.`__validity` + `__arrival`.`__number` > 0"
    )


def expected(shop: Shop) -> list[Row]:
    tables = {name: rows for source in shop.places for name, rows in shop.rows(source).items()}
    return sorted(
        (x[0], y[0], *x[2:], *y[2 : 2 + len(OF_BAGS)])
        for x in tables[X].elements() for y in tables[Y].elements() if x[1] == y[1]
    )  # fmt: skip


def shown(shop: Shop, view: str) -> list[Row]:
    return sorted(tuple(row.values()) for row in shop.warehouse.store(view).read_arrow().to_pylist())


CHANGES = (
    (
        (Y, f"INSERT INTO <> VALUES {row_of(13, 2)}"),
        (X, f"INSERT INTO <> VALUES {row_of(4, 1)}"),
        (X, "UPDATE <> SET <__weight> = 5, <_weir_hash> = 6, <%s> = 7 WHERE id = 1"),
    ),
    (
        (Y, "UPDATE <> SET <__transaction> = 5, <__xid> = 4 WHERE id = 10"),
        (X, "DELETE FROM <> WHERE id = 2"),
        (Y, "DELETE FROM <> WHERE id = 11"),
    ),
)


def change(shop: Shop, table: str, statement: str) -> None:
    """``<>`` is the table, ``<name>`` a column."""
    (source,) = (source for source, held in shop.places.items() if table in held)
    quoted = shop.databases[source].quoted
    shop.write(source, re.sub("<([^>]*)>", lambda found: quoted(found[1] or table), statement))


def live(shop: Shop, strategies: Sequence[str]) -> None:
    """First load, insert, update, delete; everything a reader sees, and the audit."""
    views = {strategy.replace("-", "_"): strategy for strategy in strategies}
    select = joined(shop.names[X], shop.names[Y]).replace("{", "{{").replace("}", "}}")
    for name, strategy in views.items():
        shop.view(name, select, consistency="strong", strategy=strategy)
    shop.catch_up()
    for together in CHANGES:
        for table, statement in together:
            change(shop, table, statement)
        shop.catch_up()
        wanted = expected(shop)
        assert [name for name in views if shown(shop, name) != wanted] == []
    for name in views:
        audit = shop.audit(name)
        assert audit.clean, str(audit)
    assert sorted(map(tuple, shop.warehouse.read(next(iter(views))).collect())) == wanted


def tables(quoted: Callable[[str], str]) -> dict[str, list[str]]:
    return {
        X: created(quoted, X, [row_of(1, 1), row_of(2, 1), row_of(3, 2)]),
        Y: created(quoted, Y, [row_of(10, 1), row_of(11, 1), row_of(12, 3)]),
    }


@pytest.mark.slow
@pytest.mark.spark
def test_several_sources(open_shop: OpenShop) -> None:
    """Sweeps on Spark, copies, partitions, keys and rings."""
    places = {"a": (X,), "b": (Y,)}
    live(open_shop(kinds=("sqlite",), places=places, tables=tables(double_quoted)), SEVERAL)


@pytest.mark.spark
def test_one_source(open_shop: OpenShop) -> None:
    """The algorithms for one source, and recomputation."""
    places = {"a": (X, Y)}
    live(open_shop(kinds=("sqlite",), places=places, tables=tables(double_quoted)), ONE)


def test_no_database_can_name_a_column_so() -> None:
    """What stands beside the columns of a table inside Weir holds a character that ends every SQL text."""
    assert all("\0" in name for name in (WEIGHT, ARRIVAL, VALIDITY, TRANSACTION, NUMBER))


@pytest.mark.spark
def test_names_that_differ_in_case_only(open_shop: OpenShop) -> None:
    """PostgreSQL has them, to Spark they are one: a view that names one of them is refused, other columns are fine."""
    made = ['CREATE TABLE t (id bigint PRIMARY KEY, "Total" bigint, "total" bigint)', "INSERT INTO t VALUES (1, 2, 3)"]
    shop = open_shop(kinds=("postgres",), places={"a": ("t",)}, tables={"t": made})
    shop.view("upper", "SELECT t.id, t.`Total` AS x FROM {t} t")
    with pytest.raises(ViewError, match=r"view upper: column Total is ambiguous: .* which Spark does not tell apart"):
        shop.catch_up()
    shop.view("upper", "SELECT t.id FROM {t} t")
    shop.catch_up()
    shop.write("a", "INSERT INTO t VALUES (2, 3, 4)", 'UPDATE t SET id = 3, "total" = 9 WHERE id = 1')
    shop.catch_up()
    assert shown(shop, "upper") == [(2,), (3,)]
