"""kill -9 at every named point of a running process, again during the recovery, and nothing is lost or done twice.

One sequence of lives passes through all points: each life begins with the recovery from the kill before it and ends at
the next point, while writers write to two PostgreSQL databases and a SQLite file all the time. The last life catches
up. Then everything is looked at: the audits, every single recorded arrival of the complete view against a replay, the
vectors of all tables, and the files on disk.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.runtime.lives import Lives, writers
from tests.spark.servers import connect_server
from weir import points
from weir.project.kinds import specify
from weir.proving.soak.databases import open_databases
from weir.proving.soak.journal import read_journal
from weir.proving.soak.recorded import Recorded
from weir.proving.soak.replay import SELECT
from weir.proving.soak.traffic import first_rows
from weir.warehouse.record import APPEND, AsOf
from weir.warehouse.store import ViewStore

PLACES = {"crm": "postgres", "sales": "postgres", "shop": "sqlite"}
VIEWS = (
    f"CREATE MATERIALIZED VIEW lines WITH (consistency = 'complete', strategy = 'pvm-cc', group = 'g') AS {SELECT}",
    "CREATE MATERIALIZED VIEW open_orders WITH (consistency = 'strong', strategy = 'sweep', group = 'g') AS "
    "SELECT o.id, c.name FROM sales.orders o JOIN crm.customer c ON c.id = o.customer WHERE o.status % 2 = 0",
    f"CREATE MATERIALIZED VIEW parted WITH (consistency = 'complete', strategy = 'equal-partition') AS {SELECT}",
)
Death = tuple[str, int]
LOADING_DEATHS = 3  # come first


def deaths(seed: int) -> list[Death]:
    """Every point, in an order of the seed's own, after some in the middle of the first load."""
    dice = random.Random(seed)
    half_loaded = (points.AFTER_FILES, points.BETWEEN_COMMITS, points.BEFORE_COMMIT)[seed % 3]
    loading = [(points.LOADING, dice.choice((1, 2))), (half_loaded, 1), (points.LOADING, dice.choice((1, 2)))]
    others = [(point, dice.choice((1, 1, 2, 3, 5))) for point in points.POINTS if point != points.LOADING]
    dice.shuffle(others)
    return [*loading, *others]


@contextmanager
def spark_place(folder: Path, own: bool) -> Iterator[str]:
    """Every life's own Spark, or a server for all of them."""
    if own:
        yield "local[2]"
    else:
        with connect_server(folder) as address:
            yield address


def recover_from(folder: Path, seed: int, sequence: Sequence[Death], own_spark: bool = True) -> None:
    first = first_rows(seed)
    journal = folder / "journal"
    with open_databases(PLACES, first, folder) as databases, spark_place(folder, own_spark) as spark:
        sources = {name: (database.kind, dict(database.options)) for name, database in databases.items()}
        (folder / "project.json").write_text(json.dumps({"sources": sources, "views": VIEWS, "spark": spark}))
        with Lives(folder) as lives:
            with writers(databases, journal, seed, rate=2):
                for number, (point, times) in enumerate(sequence):
                    lives.die(point, times, loaded=number >= LOADING_DEATHS)
            said = lives.live()
        assert {audit["view"]: (audit["missing"], audit["extra"]) for audit in said["audits"]} == {
            "lines": (0, 0), "open_orders": (0, 0), "parted": (0, 0),
        }  # fmt: skip
        opened = {name: specify(name, kind, options).open() for name, (kind, options) in sources.items()}
        for name in ("lines", "parted"):
            store = ViewStore.open(folder / "warehouse" / name)
            found = Recorded(store, opened, first, read_journal(journal), merging=["shop"]).check()
            assert found.wrong == []
            assert found.transactions > 0
            assert found.transactions + found.loaded == len(list(read_journal(journal)))
            assert found.merged <= len(sequence)  # SQLite tells the transactions of its reader's absence together
        for source in opened.values():
            source.close()
    check_tables(folder / "warehouse")


def check_tables(warehouse: Path) -> None:
    """One vector per unit, arrivals without a gap, and no file that nothing names.

    An auxiliary table has no commit where nothing in it has changed; but what was decided for it is there.
    """
    lines, others, parted = (ViewStore.open(warehouse / name) for name in ("lines", "open_orders", "parted"))
    auxiliary = [ViewStore.open(log.parent) for log in (warehouse / "_auxiliary" / "parted").glob("*/_delta_log")]
    assert auxiliary
    assert (lines.positions(), lines.head.transaction) == (others.positions(), others.head.transaction)
    assert all(rows(store, AsOf()) for store in (lines, others, parted, *auxiliary))
    assert rows(parted, AsOf()) == rows(lines, AsOf())
    for store in (lines, others, parted, *auxiliary):
        assert store.settle() == []
        check_arrivals(store, gaps=store in auxiliary)
        check_files(store)
    scratch = warehouse / "_weir" / "scratch"
    assert not scratch.exists() or list(scratch.iterdir()) == []


def check_arrivals(store: ViewStore, gaps: bool) -> None:
    appended = [record for record in store.history() if record.kind == APPEND and record.arrivals is not None]
    assert gaps or appended, store.place.uri  # what an auxiliary table holds may never have changed
    numbers = [record.transaction for record in appended]
    assert numbers == sorted(set(numbers))
    for before, after in pairwise(appended):
        assert before.arrivals is not None
        assert after.arrivals is not None
        assert after.arrivals[0] == before.arrivals[1] + 1 or (gaps and after.arrivals[0] > before.arrivals[1])


def check_files(store: ViewStore) -> None:
    """Orphans are there or not; once cleaned, rows and positions are the same and nothing more can be cleaned."""
    states = [AsOf(), AsOf(version=store.log.versions()[0])]
    shown, positions = [rows(store, state) for state in states], store.positions()
    store.clean_orphans(timedelta(0))
    assert [rows(store, state) for state in states] == shown
    assert store.positions() == positions
    assert store.clean_orphans(timedelta(0)) == []


def rows(store: ViewStore, as_of: AsOf) -> Counter[tuple[object, ...]]:
    """Every row with its weight, as a multiset."""
    table = store.read_arrow(as_of, counted=True)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.slow
@pytest.mark.spark
def test_a_kill_at_every_point_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    """Every named point once, and every recovery but the last one killed too.

    Spark is a server here, which outlives its clients, and so do tasks of theirs: what these still write is left over.
    """
    recover_from(tmp_path, 1, deaths(1), own_spark=False)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "own_spark"), [(2, True), (3, False)])
def test_other_seeds(tmp_path: Path, seed: int, own_spark: bool) -> None:
    """Other orders of the points, other numbers of times they are passed, other traffic; with the first of them Spark
    dies each time too.
    """
    recover_from(tmp_path, seed, deaths(seed), own_spark)
