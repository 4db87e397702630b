"""Rows that are put down beside the tables: closed to others, and gone after a kill when the next process starts."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from weir.operation.locking import FOLDER
from weir.sources.sqlite.capture import install

pytestmark = pytest.mark.spark

LIFE = """
import sys
from weir import Warehouse, points

def stay(point):
    if sys.argv[2] == "stays" and point == points.LOADING:
        print("loading", flush=True)
        sys.stdin.read()

points.watch(stay)
settings = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"}
with Warehouse(sys.argv[1] + "/warehouse", master="local[1]", settings=settings) as warehouse:
    warehouse.source("crm", kind="sqlite", path=sys.argv[1] + "/crm.db")
    warehouse.view("CREATE MATERIALIZED VIEW names AS SELECT c.id, c.name FROM crm.customer AS c")
    warehouse.run(until_caught_up=True)
    print(warehouse.verify("names"), flush=True)
"""
HOLDER = """
import sys
from pathlib import Path
from weir.scratch import PrivateFolder, machine_place
folders = [PrivateFolder(machine_place()), PrivateFolder(Path(sys.argv[1]))]
print(*(folder.path for folder in folders), sep="\\n", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(program: str, temporary: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """With all that it starts in a group of its own, which is killed in the end."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env={**os.environ, "TMPDIR": str(temporary)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, umask=0o022,
    )  # fmt: skip
    try:
        yield child
    finally:
        kill(child)
        child.communicate()


def kill(child: subprocess.Popen[str]) -> None:
    """Python and Java: neither can clean up."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def told(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def folders(place: Path, but: Sequence[Path] = ()) -> list[Path]:
    return [path for path in place.iterdir() if path.is_dir() and path not in but]


def test_what_a_killed_process_leaves_is_private_and_goes_at_the_next_start(tmp_path: Path) -> None:
    """Whole tables for the first load and Spark's blocks; a living process's folders stay; tables keep the umask."""
    with sqlite3.connect(tmp_path / "crm.db") as database:
        database.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace')")
    install(tmp_path / "crm.db", ["customer"])
    temporary, scratch = tmp_path / "temporary", tmp_path / "warehouse" / FOLDER / "scratch"
    temporary.mkdir(0o777)

    with (
        process(LIFE, temporary, str(tmp_path), "stays") as victim,
        process(HOLDER, temporary, str(scratch)) as living,
    ):
        kept = [Path(told(living)) for _ in range(2)]
        assert told(victim) == "loading"
        kill(victim)
        (place,) = temporary.iterdir()  # and nothing of Spark's or Java's beside it
        (sparks,) = folders(place, but=kept)
        (mine,) = folders(scratch, but=kept)
        (load,) = mine.iterdir()
        assert any(path.name.startswith("blockmgr-") for path in sparks.iterdir())
        assert {mode(path) for path in (place, sparks, scratch, mine, load)} == {0o700}
        assert [mode(path) for path in load.iterdir()] == [0o600]

        with process(LIFE, temporary, str(tmp_path), "ends") as following:
            assert told(following) == "view names: 2 rows, 0 missing, 0 extra"
            assert following.wait() == 0
        assert folders(place) + folders(scratch) == kept
    tables = list((tmp_path / "warehouse" / "names").rglob("*.parquet"))
    assert {mode(path) for path in tables} == {0o644}
