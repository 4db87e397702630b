"""Any name that a database takes goes through the whole runtime: tables, columns, aliases and output columns with
quotes of every kind, points, blanks, brackets, keywords, umlauts, capitals and a digit at the beginning.

Only what Delta cannot store is refused, and that only where a reader would see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.runtime.shop import Shop
from weir.algebra.quoting import backquoted, double_quoted
from weir.algebra.types import BIGINT, Schema
from weir.proving.kinds import KINDS as DRIVERS
from weir.warehouse.columns import check_columns, escaped, unescaped
from weir.warehouse.errors import BadColumns

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
Row = tuple[Any, ...]

MAKER, ITEM, SALE = "ma`ker", """1 "It's". Größe""", "order by (x) = 1;"
ID, REF, OTHER = "1 i`d", 'ref. of, "a" {b}', "`'\".%41"
# Delta takes these as they are, the other one needs AS.
ODD = ("do.t", 'dou"ble', "sin'gle", "back`quote", "select", "größe", "MixedCase", "2nd", "%20", "a\\b")
BLANK = "bl ank, (t)=1;"
COLUMNS: Mapping[str, Sequence[str]] = {
    MAKER: (ID, *ODD[:5], BLANK),
    ITEM: (ID, REF, *ODD[5:]),
    SALE: (ID, OTHER),
}
ROWS: Mapping[str, Sequence[Row]] = {
    MAKER: [(1, 11, 12, 13, 14, 15, 16), (2, 21, 22, 23, 24, 25, 26)],
    ITEM: [(10, 1, 5, 6, 7, 8, 9), (20, 2, 6, 7, 8, 9, 10)],
    SALE: [(100, 10), (101, 10), (102, 20)],
}
ONE_PLACE = {"shop": (MAKER, ITEM, SALE)}
THREE_PLACES = {"a": (MAKER,), "b": (ITEM,), "c": (SALE,)}
OF_ONE_SOURCE = ("auto", "recompute", "eca")
OF_SEVERAL = ("auto", "copies", "t-strobe", "equal-partition", "sweep", "pvm-cc", "ring")


@dataclass(frozen=True)
class _Named:
    """A shop whose tables and columns have such names."""

    shop: Shop

    def write(self, table: str, statement: str) -> None:
        """``T`` is the table, ``<n>`` its column number n."""
        (source,) = (source for source, tables in self.shop.places.items() if table in tables)
        self.shop.write(source, _statement(self.shop.databases[source].quoted, table, statement))

    def select(self, output: str) -> str:
        """``M``, ``I`` and ``S`` are the tables' aliases."""
        join = (
            f"FROM {{M}} M JOIN {{I}} I ON I.{backquoted(REF)} = M.{backquoted(ID)} "
            f"JOIN {{S}} S ON S.{backquoted(OTHER)} = I.{backquoted(ID)} WHERE I.`größe` < 100"
        )
        aliases = {"M": '`m``, "1"`', "I": "`2 it's.x`", "S": "`Straße (3)`"}
        text = re.sub(r"\b([MIS])(?=[. ])", lambda found: aliases[found[1]], f"SELECT {output} {join}")
        places = dict(zip("MIS", (self.shop.names[table] for table in (MAKER, ITEM, SALE)), strict=True))
        return re.sub(r"\{([MIS])\}", lambda found: places[found[1]], text).replace("{b}", "{{b}}")

    def contents(self, view: str) -> list[Row]:
        """What a reader without Spark sees."""
        return sorted(tuple(row.values()) for row in self.shop.warehouse.store(view).read_arrow().to_pylist())


def _statement(quoted: Callable[[str], str], table: str, text: str) -> str:
    columns = [quoted(name) for name in COLUMNS[table]]
    return re.sub(r"\bT\b|<(\d)>", lambda found: columns[int(found[1])] if found[1] else quoted(table), text)


def _open(open_shop: OpenShop, kinds: Sequence[str], places: Mapping[str, Sequence[str]]) -> _Named:
    quotes = {source: quoting(kinds[at % len(kinds)]) for at, source in enumerate(places)}
    tables = {name: _created(quotes[source], name) for source, names in places.items() for name in names}
    return _Named(open_shop(kinds=kinds, places=places, tables=tables))


def quoting(kind: str) -> Callable[[str], str]:
    """How a kind's SQL has names."""
    return backquoted if DRIVERS[kind] == "mariadb" else double_quoted


def _created(quoted: Callable[[str], str], table: str) -> list[str]:
    rest = ", ".join(f"<{at}> bigint" for at in range(1, len(COLUMNS[table])))
    rows = ", ".join(map(str, ROWS[table]))
    made = [f"CREATE TABLE T (<0> bigint PRIMARY KEY NOT NULL, {rest})", f"INSERT INTO T VALUES {rows}"]
    made += [f"CREATE INDEX {quoted(f'i`.{table}')} ON T (<1>)"]
    return [_statement(quoted, table, text) for text in made]


NAMES = {"M": "`m.1``d`", "I": "`1i``d`", "S": "`S'\"`"}
KEYS = ", ".join(f"{alias}.{backquoted(ID)} AS {name}" for alias, name in NAMES.items())
PLAIN = ", ".join(f"{'M' if at < 5 else 'I'}.{backquoted(name)}" for at, name in enumerate(ODD))
OUTPUT = f"{KEYS}, {PLAIN}, M.{backquoted(BLANK)} AS `bl.ank`"
MADE = {1: (11, 12, 13, 14, 15), 2: (21, 22, 23, 24, 25)}
FIRST = [
    (1, 10, 100, *MADE[1], 5, 6, 7, 8, 9, 16),
    (1, 10, 101, *MADE[1], 5, 6, 7, 8, 9, 16),
    (2, 20, 102, *MADE[2], 6, 7, 8, 9, 10, 26),
]
INSERTED = [*FIRST, (2, 20, 103, *MADE[2], 6, 7, 8, 9, 10, 26)]
UPDATED = [(*row[:-1], 17) if row[0] == 1 else row for row in INSERTED]
DELETED = [row for row in UPDATED if row[1] != 20]


STEPS = (
    (SALE, "INSERT INTO T VALUES (103, 20)", INSERTED),
    (MAKER, "UPDATE T SET <6> = 17 WHERE <0> = 1", UPDATED),
    (ITEM, "DELETE FROM T WHERE <0> = 20", DELETED),
)


def _live(named: _Named, strategies: Sequence[str]) -> None:
    """First load, insert, update, restart, delete: every view shows what it should, and the audit is clean."""
    shop, views = named.shop, [strategy.replace("-", "_") for strategy in strategies]
    for view, strategy in zip(views, strategies, strict=True):
        shop.view(view, named.select(OUTPUT), consistency="strong", strategy=strategy)
    shop.catch_up()
    assert {view: named.contents(view) for view in views} == dict.fromkeys(views, FIRST)
    for number, (table, statement, shown) in enumerate(STEPS):
        if number == 2:
            shop.restart()
        named.write(table, statement)
        shop.catch_up()
        assert {view: named.contents(view) for view in views} == dict.fromkeys(views, shown)
    for view in views:
        audit = shop.audit(view)
        assert audit.clean, str(audit)
        assert sorted(tuple(row) for row in shop.warehouse.read(view).collect()) == shown


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_one_source(open_shop: OpenShop, kind: str) -> None:
    """Each kind of database; the algorithms for one source."""
    named = _open(open_shop, [kind], ONE_PLACE)
    _live(named, OF_ONE_SOURCE if kind == "sqlite" else OF_ONE_SOURCE[:1])


@pytest.mark.parametrize("kinds", [("sqlite",), ("mariadb", "postgres", "postgres-triggers")], ids="-".join)
def test_several_sources(open_shop: OpenShop, kinds: Sequence[str]) -> None:
    """Sweeps, keys, copies, auxiliary views, rings: over tables of the same kind, and of three kinds."""
    named = _open(open_shop, kinds, THREE_PLACES)
    _live(named, OF_SEVERAL if len(kinds) == 1 else OF_SEVERAL[:4])


def test_functions_that_only_spark_knows(open_shop: OpenShop) -> None:
    """Spark's own SQL over columns of such names, in the select list and in conditions, with UNION ALL."""
    named = _open(open_shop, ["sqlite"], THREE_PLACES)
    pieces = ", ".join(f"lpad(M.{backquoted(name)}, 3, '0')" for name in (*ODD[:5], BLANK))
    select = named.select(f"S.{backquoted(ID)} AS `id.of``x`, concat_ws('.', {pieces}) AS `l.pad`")
    select += f" AND `2 it's.x`.{backquoted(ODD[7])} RLIKE '^[0-9]+$'"
    named.shop.view("padded", f"{select} UNION ALL {select}", consistency="strong")
    named.shop.catch_up()
    named.write(SALE, "INSERT INTO T VALUES (103, 20)")
    named.write(MAKER, "UPDATE T SET <6> = 17 WHERE <0> = 1")
    named.shop.catch_up()
    named.write(SALE, "DELETE FROM T WHERE <0> = 100")
    named.shop.catch_up()
    first, second = "011.012.013.014.015.017", "021.022.023.024.025.026"
    shown = [(101, first), (101, first), (102, second), (102, second), (103, second), (103, second)]
    assert named.contents("padded") == shown
    assert named.shop.audit("padded").clean


@pytest.mark.parametrize("char", [*" ,;{}()="])
def test_what_delta_cannot_store_is_refused_by_name(char: str) -> None:
    """With the way out; only in the view's own columns, which everybody reads."""
    with pytest.raises(BadColumns, match=r"cannot be stored in Delta, its name holds .* name it with AS"):
        check_columns(Schema.of(**{f"a{char}b": BIGINT}))
    check_columns(escaped(Schema.of(**{f"a{char}b": BIGINT})))
    assert unescaped(escaped(Schema.of(**{f"_weir_%{char}": BIGINT}))).names == (f"_weir_%{char}",)
