"""A small shop over three databases, and what happened in it: every write is recorded as a transaction, every state of
a view is read back, and the checker says which level the run has held.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.runtime.databases import Database
from weir import Warehouse
from weir.algebra.catalog import Relation
from weir.algebra.memory import MemoryBag
from weir.algebra.quoting import backquoted
from weir.algebra.types import Schema
from weir.consistency.checker import check
from weir.consistency.history import SourceHistory
from weir.consistency.lattice import Lattice
from weir.consistency.replay import AnyVector
from weir.consistency.verdict import Verdict
from weir.messages import Change, GlobalTransaction, Update
from weir.operation.audit import Audit
from weir.project.folder import RunKeys
from weir.proving.databases import Servers
from weir.warehouse.record import APPEND, LOAD, AsOf

Rows = Counter[tuple[Any, ...]]
MIX = ("sqlite", "postgres", "mariadb", "postgres-triggers")  # the kinds of the sources, in turn

TABLES: Mapping[str, Sequence[str]] = {
    "customer": (
        "CREATE TABLE customer (id bigint PRIMARY KEY NOT NULL, name varchar(40), city varchar(40))",
        "INSERT INTO customer VALUES (1, 'Ann', 'Ulm'), (2, 'Bob', 'Bonn')",
    ),
    "orders": (
        "CREATE TABLE orders (id bigint PRIMARY KEY NOT NULL, customer bigint, product bigint, amount bigint)",
        "CREATE INDEX orders_customer ON orders (customer)",
        "CREATE INDEX orders_product ON orders (product)",
        "INSERT INTO orders VALUES (10, 1, 100, 3), (11, 2, 101, 4), (12, 1, 101, 1)",
    ),
    "product": (
        "CREATE TABLE product (id bigint PRIMARY KEY NOT NULL, title varchar(40), price bigint)",
        "INSERT INTO product VALUES (100, 'pen', 2), (101, 'ink', 7)",
    ),
}
PLACES: Mapping[str, Sequence[str]] = {"crm": ("customer",), "sales": ("orders",), "stock": ("product",)}
LINES = (
    "SELECT o.id AS oid, c.id AS cid, p.id AS pid, c.name, p.title, o.amount FROM {customer} c "
    "JOIN {orders} o ON o.customer = c.id JOIN {product} p ON p.id = o.product WHERE o.amount > 0"
)


@dataclass
class Recorded:
    """One source's tables at the beginning, and its transactions since."""

    initial: dict[str, Rows] = field(default_factory=dict)
    writes: list[tuple[dict[str, tuple[Rows, Rows]], GlobalTransaction | None]] = field(default_factory=list)


class Shop:
    """Databases, a warehouse over them, and the record of both. ``places``: which source holds which tables."""

    def __init__(
        self,
        servers: Servers,
        spark: SparkSession | None,
        folder: Path,
        kinds: Sequence[str] = MIX,
        places: Mapping[str, Sequence[str]] = PLACES,
        tables: Mapping[str, Sequence[str]] = TABLES,
        run: RunKeys | None = None,
    ) -> None:
        self.spark, self.folder, self.places, self.run_keys = spark, folder, places, run
        self.databases: dict[str, Database] = {
            source: Database(servers, kinds[at % len(kinds)]) for at, source in enumerate(places)
        }
        for source, names in places.items():
            self.databases[source].create(names, [statement for name in names for statement in tables[name]])
        self.recorded = {source: Recorded(self.rows(source)) for source in places}
        self.views: dict[str, str] = {}
        self.warehouse = self.open()

    # -- the warehouse -------------------------------------------------------------------------------------------------

    def open(self) -> Warehouse:
        """A warehouse that knows nothing but its folder, the sources and the views."""
        warehouse = Warehouse(self.folder / "warehouse", spark=self.spark, run=self.run_keys)
        for source, database in self.databases.items():
            warehouse.source(source, kind=database.kind, **database.options)
        for text in self.views.values():
            warehouse.view(text)
        return warehouse

    def restart(self) -> None:
        self.warehouse.close()
        self.warehouse = self.open()

    def view(self, name: str = "lines", select: str = LINES, **options: str) -> None:
        """A view; ``{orders}`` in its SELECT is that table at its source."""
        given = ", ".join(f"{option} = '{value}'" for option, value in options.items())
        text = f"CREATE MATERIALIZED VIEW {name} WITH ({given}) AS {select.format(**self.names)}"
        self.views[name] = text
        self.warehouse.view(text)

    @property
    def names(self) -> dict[str, str]:
        return {table: f"{source}.{backquoted(table)}" for source, tables in self.places.items() for table in tables}

    def catch_up(self) -> None:
        self.warehouse.run(until_caught_up=True)

    def audit(self, name: str = "lines") -> Audit:
        return self.warehouse.verify(name)

    def close(self) -> None:
        self.warehouse.close()
        for database in self.databases.values():
            database.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    def rows(self, source: str) -> dict[str, Rows]:
        database = self.databases[source]
        return {table: Counter(database.query(f"SELECT * FROM {database.quoted(table)}")) for table in database.tables}

    def write(self, source: str, *statements: str, part_of: GlobalTransaction | None = None) -> None:
        """One transaction, recorded by the rows before and after it."""
        database = self.databases[source]
        marks = [database.mark(part_of)] if part_of is not None else []
        before = self.rows(source)
        database.transact([*marks, *statements])
        after = self.rows(source)
        changed = {table: (after[table] - before[table], before[table] - after[table]) for table in after}
        self.recorded[source].writes.append(({t: c for t, c in changed.items() if any(c)}, part_of))

    def write_global(self, identifier: str, parts: Mapping[str, Sequence[str]]) -> None:
        """One transaction with a part at each of several sources."""
        for source, statements in parts.items():
            self.write_global_part(identifier, parts, source, *statements)

    def write_global_part(self, identifier: str, sources: Iterable[str], source: str, *statements: str) -> None:
        """One of its parts."""
        self.write(source, *statements, part_of=GlobalTransaction(identifier, frozenset(sources)))

    # -- checking ------------------------------------------------------------------------------------------------------

    def verdict(self, name: str = "lines") -> Verdict:
        """What the states of the view that were ever visible, and the recorded transactions, add up to."""
        view = self.warehouse.parsed_view(name)
        sources = [self._history(source) for source in view.sources]
        return check(Lattice(sources, AnyVector(view, sources)), self.states(name))

    def _history(self, source: str) -> SourceHistory:
        recorded = self.recorded[source]
        relations = {
            Relation(source, table): self._bag(source, table, rows) for table, rows in recorded.initial.items()
        }
        updates = [
            Update(source, number, tuple(self._changes(source, changed)), part_of=part_of)
            for number, (changed, part_of) in enumerate(recorded.writes, start=1)
        ]
        return SourceHistory(source, tuple(updates), relations)

    def _changes(self, source: str, changed: Mapping[str, tuple[Rows, Rows]]) -> Iterable[Change]:
        for table, (inserted, deleted) in changed.items():
            bags = [self._bag(source, table, rows) if rows else None for rows in (inserted, deleted)]
            yield Change(Relation(source, table), *bags)

    def _bag(self, source: str, table: str, rows: Rows) -> MemoryBag:
        schema = self.warehouse.survey.catalog[Relation(source, table)].schema
        return MemoryBag.weighted(schema, rows.items())

    def states(self, name: str = "lines") -> list[MemoryBag]:
        """Every state that a reader could ask for: of every arrival where the view keeps them all, else versions."""
        store = self.warehouse.store(name)
        versions = [AsOf(version=each.version) for each in store.history() if each.kind in (LOAD, APPEND)]
        if "consistency = 'complete'" in self.views[name]:
            versions[1:] = [AsOf(arrival=number) for number in range(1, store.head.last_arrival + 1)]
        return [self.state(name, as_of) for as_of in versions]

    def state(self, name: str = "lines", as_of: AsOf = AsOf()) -> MemoryBag:  # noqa: B008  # frozen
        store = self.warehouse.store(name)
        return bag_of(store.schema, store.read_arrow(as_of).to_pylist())

    def assert_right(self, level: str, name: str = "lines") -> Audit:
        """The audit finds nothing, and the run has held its level."""
        found = self.audit(name)
        assert found.clean, str(found)
        verdict = self.verdict(name)
        assert verdict.holds(level), verdict.explain(level)
        return found


def bag_of(schema: Schema, rows: Iterable[Mapping[str, Any]]) -> MemoryBag:
    return MemoryBag.of(schema, [tuple(row.values()) for row in rows])


def wait_until(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    """For what another thread or process brings about."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
