"""What happens at the sources: batches of row changes from a seed, in transactions of one source each.

Of a batch's row changes 60 % are new orders with their lines, 20 % deleted orders with their lines, 20 % changed
customers and parts. An order comes or goes in one transaction; every changed customer and part has its own. A batch
of one change has no room for an order: it is a new line of an order or a line gone, one that the view shows, or a
customer or part, in the same shares.

Batches are made and applied one after the other: a new one looks at what is there now.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from weir.bench.product.tpch.bare import Bare
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.tables import LEAST_QUANTITY, TABLES, WEIGHT

NamedRow: TypeAlias = dict[str, Any]
SINGLES = ("new", "changed", "new", "deleted", "new")  # what batches of one change do, in turns
MOST_LINES = 7
CANDIDATES = 50  # orders looked at together when some are to be deleted
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")


@dataclass(frozen=True)
class RowChange:
    """One row: inserted (no old one), deleted (no new one) or modified."""

    table: str
    old: NamedRow | None = None
    new: NamedRow | None = None


RowChanges: TypeAlias = tuple[RowChange, ...]


@dataclass(frozen=True)
class ChangeBatch:
    """Transactions in the order in which they are applied."""

    transactions: tuple[RowChanges, ...]

    @property
    def changes(self) -> list[RowChange]:
        return [change for transaction in self.transactions for change in transaction]

    def delta(self, table: str, schema: pa.Schema) -> pa.Table:
        """A table's old rows with weight -1 and new ones with +1, the needed columns only: what a log would tell."""
        own = [change for change in self.changes if change.table == table]
        images = [(c.old, -1) for c in own if c.old] + [(c.new, 1) for c in own if c.new]
        needed = pa.schema([schema.field(name) for name in TABLES[table].needed])
        rows = pa.Table.from_pylist([{name: row[name] for name in needed.names} for row, _ in images], needed)
        return rows.append_column(WEIGHT, pa.array([weight for _, weight in images], pa.int64()))


class TpchWorkload:
    """Makes batches. ``bare`` has a connection per table, by which old rows are found."""

    def __init__(self, data: Data, bare: Mapping[str, Bare], seed: int = 0) -> None:
        self.bare, self.schemas = bare, data.schemas()
        self.dice = random.Random(seed)
        self.rows = data.rows()
        self.orders: list[int] = data.column("orders", "o_orderkey").to_pylist()  # of the first load
        self.gone: set[int] = set()  # those of them that were deleted
        self.next_order = max(self.orders) + 1
        self.singles = self.modified = 0
        self.extended: set[int] = set()  # orders with a line more

    def batch(self, size: int) -> ChangeBatch:
        if size == 1:
            return ChangeBatch(tuple(self._single()))
        new, deleted = round(size * 0.6), round(size * 0.2)
        return ChangeBatch(self._mixed(self._new(new), self._deleted(deleted), self._modified(size - new - deleted)))

    def _mixed(self, *kinds: Iterable[RowChanges]) -> tuple[RowChanges, ...]:
        """In any order, but those of one kind in their own: a customer's second change follows the first."""
        made = [list(kind) for kind in kinds]
        turns = [kind for kind, transactions in enumerate(made) for _ in transactions]
        self.dice.shuffle(turns)
        following = [iter(transactions) for transactions in made]
        return tuple(next(following[kind]) for kind in turns)

    def _single(self) -> list[RowChanges]:
        kind = SINGLES[self.singles % len(SINGLES)]
        self.singles += 1
        if kind == "changed":
            return self._modified(1)
        return [(self._new_line(),) if kind == "new" else (self._deleted_line(),)]

    # -- orders -----------------------------------------------------------------------------------------------------

    def _new(self, left: int) -> Iterator[RowChanges]:
        while left:
            lines = min(self.dice.randint(1, MOST_LINES), left - 1)
            if left - 1 - lines == 1:  # no order has a single row
                lines += 1
            yield self._new_order(lines)
            left -= 1 + lines

    def _new_order(self, lines: int) -> RowChanges:
        key, self.next_order = self.next_order, self.next_order + 1
        order = {
            "o_orderkey": key, "o_custkey": self.dice.randint(1, self.rows["customer"]), "o_orderstatus": "O",
            "o_totalprice": self._amount(500_000), "o_orderdate": self._day(), "o_orderpriority": "2-HIGH",
            "o_clerk": "Clerk#000000001", "o_shippriority": 0, "o_comment": f"order {key} of the benchmark",
        }  # fmt: skip
        return (
            RowChange("orders", new=order),
            *(RowChange("lineitem", new=self._line(key, n + 1)) for n in range(lines)),
        )

    def _new_line(self) -> RowChange:
        """One more line of an order of the first load, which has at most seven."""
        key = next(key for key in self._drawn() if key not in self.extended)
        self.extended.add(key)
        return RowChange("lineitem", new=self._line(key, MOST_LINES + 1, LEAST_QUANTITY + 1))

    def _line(self, order: int, number: int, least: int = 1) -> NamedRow:
        day = self._day()
        return {
            "l_orderkey": order, "l_partkey": self.dice.randint(1, self.rows["part"]), "l_suppkey": 1,
            "l_linenumber": number, "l_quantity": Decimal(self.dice.randint(least, 50)),
            "l_extendedprice": self._amount(100_000), "l_discount": Decimal(self.dice.randint(0, 10)) / 100,
            "l_tax": Decimal("0.02"), "l_returnflag": "N", "l_linestatus": "O", "l_shipdate": day,
            "l_commitdate": day + timedelta(5), "l_receiptdate": day + timedelta(9), "l_shipinstruct": "NONE",
            "l_shipmode": "RAIL", "l_comment": f"line {number}",
        }  # fmt: skip

    def _deleted(self, left: int) -> Iterator[RowChanges]:
        """Orders of the first load, chosen so that exactly so many rows go; a single row is a line."""
        while left > 1:
            keys = sorted(set(islice(self._drawn(), CANDIDATES)))
            lines = self._find("lineitem", "l_orderkey", keys)
            for order in self._find("orders", "o_orderkey", keys):
                own = [line for line in lines if line["l_orderkey"] == order["o_orderkey"]]
                rest = left - 1 - len(own)
                if rest == 0 or rest > 1:
                    yield (*(RowChange("lineitem", old=line) for line in own), RowChange("orders", old=order))
                    self.gone.add(order["o_orderkey"])
                    left = rest
        if left:
            yield (self._deleted_line(),)

    def _deleted_line(self) -> RowChange:
        found = (line for key in self._drawn() for line in self._find("lineitem", "l_orderkey", [key]))
        return RowChange("lineitem", old=next(line for line in found if line["l_quantity"] > LEAST_QUANTITY))

    def _drawn(self) -> Iterator[int]:
        """Orders of the first load that are still there, without end."""
        while True:
            key = self.dice.choice(self.orders)
            if key not in self.gone:
                yield key

    # -- customers and parts ----------------------------------------------------------------------------------------

    def _modified(self, many: int) -> list[RowChanges]:
        """Customers and parts in turns; one that is drawn twice changes twice."""
        tables = [("customer", "part")[(self.modified + at) % 2] for at in range(many)]
        self.modified += many
        drawn = [(table, self.dice.randint(1, self.rows[table])) for table in tables]
        now: dict[tuple[str, int], NamedRow] = {}
        for table in dict.fromkeys(tables):
            key = TABLES[table].key[0]
            wanted = sorted({number for name, number in drawn if name == table})
            now |= {(table, row[key]): row for row in self._find(table, key, wanted)}
        return [(self._modify(now, table, number),) for table, number in drawn]

    def _modify(self, now: dict[tuple[str, int], NamedRow], table: str, number: int) -> RowChange:
        old = now[table, number]
        if table == "customer":
            new = {**old, "c_mktsegment": self.dice.choice(SEGMENTS), "c_acctbal": self._amount(10_000)}
        else:
            new = {**old, "p_retailprice": self._amount(2_000)}
        now[table, number] = new
        return RowChange(table, old, new)

    # -- values -----------------------------------------------------------------------------------------------------

    def _find(self, table: str, key: str, keys: Sequence[int]) -> list[NamedRow]:
        """Whole rows, in the order of their key, so that a seed always gives the same batch."""
        rows = self.bare[table].look(table, self.schemas[table].names, key, keys)
        found: list[NamedRow] = rows.sort_by([(name, "ascending") for name in TABLES[table].key]).to_pylist()
        return found

    def _amount(self, most: int) -> Decimal:
        return Decimal(self.dice.randint(100, most * 100)).scaleb(-2)

    def _day(self) -> date:
        return date(1998, 8, 2) + timedelta(self.dice.randint(0, 365))
