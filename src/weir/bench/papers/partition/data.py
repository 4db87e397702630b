"""The world of the partition study: a chain of tables, each at its own source.

``r1(N, A, B)`` at s1, ``r2(N, A, B)`` at s2, ...; ``r1.B = r2.A and r2.B = r3.A`` and so on. Every join value occurs
``fanout`` times on either side, so a join of p neighbours holds ``rows x fanout^(p-1)`` rows. Every inserted row joins,
so no refresh is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weir.algebra.catalog import Relation, Table
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema
from weir.messages import Change, Update
from weir.simulator.scenario import Scenario

SCHEMA = Schema.parse("N int, A int, B int")  # N is the key
ROWS = 12


@dataclass(frozen=True)
class ChainUpdate:
    """An update of table number ``table`` (from 1 on): an insert, or the delete of an initial row."""

    table: int
    deletes: int | None = None  # the key of the row to delete


def relation(table: int) -> Relation:
    return Relation(f"s{table}", f"r{table}")


def chain(tables: int, events: Sequence[ChainUpdate] = (), fanout: int = 1, all_keys: bool = False) -> Scenario:
    """The scenario; updates are called U1, U2, ... in the order given."""
    relations = [relation(at) for at in range(1, tables + 1)]
    catalog = {r: Table(r, SCHEMA, ("N",)) for r in relations}
    rows = {r: MemoryBag.of(SCHEMA, [initial(at, fanout) for at in range(ROWS)]) for r in relations}
    count: dict[int, int] = {}
    script = []
    for number, event in enumerate(events, 1):
        count[event.table] = count.get(event.table, 0) + 1
        change = _change(event, number, fanout)
        script.append(Update(f"s{event.table}", count[event.table], (change,), f"U{number}"))
    return Scenario(f"a chain of {tables}", _view(tables, all_keys), catalog, rows, tuple(script))


def initial(at: int, fanout: int) -> Row:
    """Row number ``at`` of any table: blocks of ``fanout`` rows share their join values."""
    return (at, at // fanout, at // fanout)


def _change(event: ChainUpdate, number: int, fanout: int) -> Change:
    if event.deletes is not None:
        return Change(relation(event.table), deleted=MemoryBag.of(SCHEMA, [initial(event.deletes, fanout)]))
    return Change(relation(event.table), inserted=MemoryBag.of(SCHEMA, [(1000 + number, 0, 0)]))


def _view(tables: int, all_keys: bool) -> str:
    names = [f"r{at}" for at in range(1, tables + 1)]
    columns = [f"{name}.N AS n_{name}" for name in names] if all_keys else ["r1.A", f"{names[-1]}.B"]
    joins = [f"JOIN s{at}.r{at} ON r{at - 1}.B = r{at}.A" for at in range(2, tables + 1)]
    return f"CREATE MATERIALIZED VIEW chain AS SELECT {', '.join(columns)} FROM s1.r1 {' '.join(joins)}"
