"""The oracle on files: random successive snapshots, and a producer that writes whole and torn ones meanwhile."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.sources.files.producer import put, table_of
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.oracle import ReplayedSource
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.files.position import parts_of
from weir.sources.source import LoadAgain

pytestmark = pytest.mark.spark
THINGS = Relation("lake", "things")
COLUMNS = {THINGS: ("id", "name", "price")}
Rows = list[tuple[Any, ...]]
SNAPSHOTS = 30


def content(seed: int, number: int) -> Rows:
    """The rows of the snapshot of this number: each differs from the last by some; duplicates, NULL, NaN."""
    rows: Rows = []
    dice = random.Random(seed)
    for _ in range(number + 1):
        dice.shuffle(rows)
        del rows[: dice.randrange(len(rows) // 3 + 1)]
        values = (None, 0.5, float("nan"), float("inf"))
        rows += [
            (dice.randrange(20), dice.choice(("a", None, "é")), dice.choice(values)) for _ in range(dice.randrange(20))
        ]
    return rows


def name(number: int) -> str:
    return f"{number:04}"


def lookups(dice: random.Random) -> list[Lookup]:
    schema = Schema.parse("id bigint")
    keys = sorted({(dice.randrange(25),) for _ in range(dice.randrange(5))})
    return [Lookup(THINGS, ("id", "name"), ("id",), MemoryBag.of(schema, keys))]


@pytest.mark.parametrize("seed", range(3))
def test_load_and_changes_make_every_snapshot(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """After each visit the replay is the newest snapshot delivered, and every lookup equals it."""
    dice, number = random.Random(seed), 0
    put(tmp_path, "things", name(0), content(seed, 0), parts=2)
    follower = ReplayedSource(FilesSource(FilesOptions("lake", str(tmp_path)), spark), COLUMNS)
    for _ in range(4):
        for _ in range(dice.randrange(1, 3)):
            number += 1
            put(tmp_path, "things", name(number), content(seed, number), parts=dice.randrange(1, 4))
        follower.check(lookups(dice))
        assert replayed(follower) == counted(content(seed, number))


def counted(rows: Rows) -> Counter[str]:
    return Counter(map(repr, rows))


def replayed(follower: ReplayedSource) -> Counter[str]:
    return Counter({repr(row): count for row, count in follower.replay.tables[THINGS].items()})


def produce(folder: str, seed: int, done: Any) -> None:
    """Writes all snapshots: some by rename, some in place with the marker last, some cut, left unfinished, or mended
    later; removes old ones after a while.
    """
    dice, shelf = random.Random(seed), Path(folder) / "things"
    for number in range(1, SNAPSHOTS):
        WAYS[dice.choice(sorted(WAYS)) if number < SNAPSHOTS - 1 else "renamed"](
            shelf, number, content(seed, number), dice
        )
        time.sleep(dice.random() * 0.3)
    done.value = 1


def _renamed(shelf: Path, number: int, rows: Rows, dice: random.Random) -> None:
    pq.write_table(table_of(rows), shelf / f"_{name(number)}.parquet")
    (shelf / f"_{name(number)}.parquet").rename(shelf / f"{name(number)}.parquet")


def _in_place(shelf: Path, number: int, rows: Rows, dice: random.Random, finish: bool = True) -> None:
    place = shelf / name(number)
    place.mkdir()
    for part in range(3):
        pq.write_table(table_of(rows[part::3]), place / f"part-{part}.parquet")
        time.sleep(dice.random() * 0.1)
    if finish:
        (place / "_SUCCESS").touch()


def _unfinished(shelf: Path, number: int, rows: Rows, dice: random.Random) -> None:
    _in_place(shelf, number, rows[: len(rows) // 2], dice, finish=False)


def _byte_by_byte(shelf: Path, number: int, rows: Rows, dice: random.Random) -> None:
    """One file that grows in place; sometimes it is never finished."""
    pq.write_table(table_of(rows), shelf / f"_{name(number)}")
    data = (shelf / f"_{name(number)}").read_bytes()
    with (shelf / f"{name(number)}.parquet").open("wb", buffering=0) as file:
        end = len(data) if dice.random() < 0.6 else len(data) * 2 // 3
        for at in range(0, end, 400):
            file.write(data[at : min(at + 400, end)])
            time.sleep(0.01)


def _removed(shelf: Path, number: int, rows: Rows, dice: random.Random) -> None:
    """Shown complete and taken away again at once."""
    _in_place(shelf, number, rows, dice)
    (shelf / name(number)).rename(shelf / f"_{name(number)}")
    shutil.rmtree(shelf / f"_{name(number)}")


WAYS = {
    "renamed": _renamed,
    "in place": _in_place,
    "unfinished": _unfinished,
    "bytes": _byte_by_byte,
    "removed": _removed,
}


@pytest.mark.slow
def test_nothing_is_wrong_beside_a_producer_that_also_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Every visit's replay is exactly the snapshot that its position names; the last one arrives."""
    seed, dice = 7, random.Random(1)
    put(tmp_path, "things", name(0), content(seed, 0))
    follower = ReplayedSource(FilesSource(FilesOptions("lake", str(tmp_path)), spark), COLUMNS)
    context = multiprocessing.get_context("spawn")
    done = context.Value("b", 0, lock=False)
    producer = context.Process(target=produce, args=(str(tmp_path), seed, done), daemon=True)
    producer.start()
    answers, late = 0, 0
    while late <= SNAPSHOTS and (answers < 10 or newest(follower) != name(SNAPSHOTS - 1)):
        late += bool(done.value)  # a visit brings some snapshots at a time
        answers += visited(follower, dice, seed)
    producer.join()
    assert newest(follower) == name(SNAPSHOTS - 1)


def newest(follower: ReplayedSource) -> str:
    return str(parts_of(follower.position, "lake")["things"][0])


def visited(follower: ReplayedSource, dice: random.Random, seed: int) -> int:
    try:
        visit = follower.check(lookups(dice))
    except LoadAgain:  # the producer took away the very snapshot that was just delivered: load afresh
        follower.replay.tables[THINGS].clear()
        follower.position = follower.replay.load(follower.source)
        return 0
    number = int(parts_of(visit.position, "lake")["things"][0])
    assert replayed(follower) == counted(content(seed, number)), f"snapshot {number}"
    return len(follower.answers)
