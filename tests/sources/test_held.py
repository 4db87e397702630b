"""A held snapshot answers one at a time, whoever asks: several units may work in the same one."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from tests.runtime.databases import Database
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.databases import Servers


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_who_asks_while_rows_are_read_waits_for_their_end(servers: Servers, kind: str) -> None:
    database = Database(servers, kind)
    rows = ", ".join(f"({number}, {number % 7})" for number in range(1000))
    database.create(
        ("t",), ["CREATE TABLE t (id bigint PRIMARY KEY NOT NULL, v bigint)", f"INSERT INTO t VALUES {rows}"]
    )
    relation = Relation("s", "t")
    with closing(database.made.spec("s").open()) as source:
        source.watch({relation: ("id", "v")})
        held = source.load().held
        found: list[int] = []
        everything = Lookup(relation, ("id", "v"))
        other = threading.Thread(target=lambda: found.append(held.look((everything,))[0].num_rows))
        batches = held.read(held.parts()[0])
        read = next(batches).num_rows
        other.start()
        other.join(0.3)
        assert found == []
        read += sum(batch.num_rows for batch in batches)
        other.join(30)
        rest = sum(batch.num_rows for part in held.parts()[1:] for batch in held.read(part))
        assert (found, read + rest) == ([1000], 1000)
        held.release()
    database.close()
