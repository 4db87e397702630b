"""A short soak: every state that a complete view has passed through is the right one, and the end is clean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from weir import Warehouse
from weir.bench.product.soak.memory import Samples
from weir.bench.product.soak.run import VIEW, Soak, soak
from weir.proving.databases import PrivateDatabase
from weir.proving.soak.databases import open_databases
from weir.proving.soak.journal import JournalEntry, JournalRow
from weir.proving.soak.recorded import Findings, Recorded
from weir.proving.soak.replay import ShopReplay
from weir.proving.soak.traffic import SoakWriter, first_rows

PLACES = {"crm": "postgres", "sales": "postgres-triggers", "shop": "sqlite"}


@pytest.mark.spark
@pytest.mark.slow
def test_a_short_soak_is_passed() -> None:
    """Lag is back to zero, the audit is clean, and each transaction is one arrival with exactly its own change."""
    report = soak(Soak(seconds=20, rate=30), PLACES)
    assert report.problems == []
    assert report.recorded.complete
    assert report.recorded.transactions == report.recorded.arrivals == report.transactions > 0
    assert report.memory["samples"] > 0


# -- the checker is no rubber stamp ------------------------------------------------------------------------------------

FIRST: dict[str, dict[int, JournalRow]] = first_rows(7)


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[tuple[Warehouse, list[JournalEntry]]]:
    """A warehouse with a few dozen recorded arrivals, and what was written."""
    folder: Path = tmp_path_factory.mktemp("recorded")
    kinds = dict.fromkeys(PLACES, "sqlite")
    with open_databases(kinds, FIRST, folder) as databases, Warehouse(folder / "warehouse", spark) as made:
        for name, database in databases.items():
            made.source(name, database.kind, **database.options)
        made.view(VIEW).run(until_caught_up=True)
        journal = [entry for _ in range(3) for entry in written_and_run(made, databases)]
        yield made, journal


def written_and_run(warehouse: Warehouse, databases: dict[str, PrivateDatabase]) -> list[JournalEntry]:
    seed = len(warehouse.store("lines").history())
    writers = [
        SoakWriter(name, database.login, seed, iter(range(seed * 10**6, 10**9))) for name, database in databases.items()
    ]
    entries = [entry for _ in range(5) for writer in writers if (entry := writer.transaction()) is not None]
    for writer in writers:
        writer.close()
    warehouse.run(until_caught_up=True)
    return entries


def check(warehouse: Warehouse, journal: list[JournalEntry]) -> Findings:
    sources = {name: spec.open() for name, spec in warehouse.sources.items()}
    try:
        return Recorded(warehouse.store("lines"), sources, FIRST, journal).check()
    finally:
        for source in sources.values():
            source.close()


@pytest.mark.spark
def test_what_was_written_is_confirmed(recorded: tuple[Warehouse, list[JournalEntry]]) -> None:
    """Every arrival is found to be one transaction."""
    warehouse, journal = recorded
    found = check(warehouse, journal)
    assert found.wrong == []
    assert found.complete
    assert found.arrivals == found.transactions == len(journal)


@pytest.mark.spark
def test_a_lost_transaction_is_told(recorded: tuple[Warehouse, list[JournalEntry]]) -> None:
    """One that the writers wrote and that no arrival brought."""
    warehouse, journal = recorded
    lost = JournalEntry("shop", "999999999", [(1, (1, 1))])
    assert any("never arrived" in problem for problem in check(warehouse, [*journal, lost]).wrong)


@pytest.mark.spark
def test_an_invented_transaction_is_told(recorded: tuple[Warehouse, list[JournalEntry]]) -> None:
    """An arrival that nobody wrote, or one that came twice."""
    warehouse, journal = recorded
    assert any("no transaction" in problem for problem in check(warehouse, journal[1:]).wrong)


@pytest.mark.spark
def test_a_wrong_change_is_told(recorded: tuple[Warehouse, list[JournalEntry]]) -> None:
    """The view's change at an arrival is not that of its transaction."""
    warehouse, journal = recorded
    at = next(n for n, entry in enumerate(journal) if entry.source == "shop" and entry.changes[-1][1] is not None)
    key, row = journal[at].changes[-1]
    assert row is not None
    other = JournalEntry("shop", journal[at].identity, [*journal[at].changes[:-1], (key, (row[0], -1))])
    assert check(warehouse, [*journal[:at], other, *journal[at + 1 :]]).wrong


# -- the parts ---------------------------------------------------------------------------------------------------------


def test_the_replay_gives_what_each_transaction_changes() -> None:
    """The sum of all changes is the view itself, and a row that goes takes what hangs on it."""
    replay, total = ShopReplay(), Counter[JournalRow]()
    for source, rows in first_rows(3).items():
        total.update(replay.apply(source, rows.items()))
    assert +total == replay.value()
    order = next(key for key in replay.orders if replay._items_of[key])
    gone = replay.apply("sales", [(order, None)])
    assert all(count < 0 for count in gone.values())
    total.update(gone)
    assert +total == replay.value()


def test_growth_is_seen_between_the_thirds() -> None:
    """After the warm-up, by medians: a peak is no growth."""
    flat, growing = [100] * 50 + [900] + [100] * 49, list(range(100, 300, 2))
    samples = Samples([0.0] * 100, {"driver": [n << 20 for n in flat], "jvm": [n << 20 for n in growing]})
    assert samples.growth("driver")["ratio"] == 1.0
    assert samples.growth("jvm")["ratio"] > 1.5
