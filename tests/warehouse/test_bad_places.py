"""Places that cannot be written or are not ours: one clear message each, and the table reads as before."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.warehouse.batches import AB, ab, rows_of
from weir.warehouse.errors import Damaged, NotAView, StoreError
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

NOBODY = 65534


def run_limited(script: str, *arguments: str, file_bytes: int | None = None) -> str:
    """What a fresh Python prints when the kernel allows it no larger files."""

    def limit() -> None:
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + script, *arguments],
        preexec_fn=limit, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


PROLOGUE = """
import sys
from weir.algebra.errors import WeirError
from weir.warehouse.store import ViewStore
from weir.algebra.types import Schema
from tests.warehouse.batches import AB, ab
def attempt(action):
    try:
        action()
        print("done")
    except WeirError as problem:
        print(type(problem).__name__, problem)
"""


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    return store


def unharmed(store: ViewStore) -> bool:
    """The last version still reads, no file was left, and the same batch can be written afterwards."""
    again = ViewStore.open(store.place.uri)
    same = (again.head.version, rows_of(again.read_arrow())) == (1, [(1, "x")])
    clean = again.clean_orphans(timedelta(0)) == []
    return same and clean and again.append(ab((2, "y", 1), arrival=2), {"s": 2}, (2, 2), 2).fresh


def test_a_commit_that_the_disk_refuses(store: ViewStore) -> None:
    """The data file fits and the commit does not: nothing is committed, the data file is taken back."""
    script = (
        "store = ViewStore.open(sys.argv[1])\nfar = {'s': 'p' * 100000}\n"
        "attempt(lambda: store.append(ab((2, 'y', 1), arrival=2), far, (2, 2), 2))"
    )
    said = run_limited(script, store.place.uri, file_bytes=20_000)
    assert said.startswith("CannotWrite cannot write to the table at")
    assert "File too large" in said
    assert unharmed(store)


def test_vectors_that_the_disk_refuses(store: ViewStore) -> None:
    """The rows to take are found and cannot be taken away: nothing is committed, no file is left."""
    script = (
        "store = ViewStore.open(sys.argv[1])\n"
        "store.append(ab(*((n, 'x', 1) for n in range(200000)), arrival=2), {'s': 2}, (2, 2), 2)\n"
        "import resource\n"
        "staged = store.stage(ab(*((n, 'x', -1) for n in range(0, 200000, 2)), arrival=3), 3)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "attempt(lambda: store.append(staged, {'s': 3}, (3, 3), 3, exact=True))\n"
        "assert store.head.version == 2\n"
        "print(sorted(name for name in store.place.listing() if 'vector' in name or '_change_data' in name))\n"
        "print(store.read_arrow().num_rows)"
    )
    said = run_limited(script, store.place.uri).splitlines()
    assert said[0].startswith("CannotWrite cannot write to the table at")
    assert "File too large" in said[0]
    assert said[-2:] == ["[]", "200001"]


def test_a_data_file_that_the_disk_refuses(store: ViewStore) -> None:
    """A data file that cannot be finished is taken back, and no commit names it."""
    script = (
        "import os\nstore = ViewStore.open(sys.argv[1])\n"
        "rows = [(n, os.urandom(20).hex(), 1) for n in range(5000)]\n"
        "attempt(lambda: store.append(ab(*rows, arrival=2), {'s': 2}, (2, 2), 2))"
    )
    said = run_limited(script, store.place.uri, file_bytes=50_000)
    assert said.startswith("CannotWrite cannot write to the table at")
    assert "File too large" in said
    assert unharmed(store)


POWERLESS = f"""
import os, tempfile
with tempfile.TemporaryDirectory() as folder:  # loads every module now: nobody may not even read ours, below /root say
    ViewStore.create(folder, AB).append(ab((1, "x", 1)), {{"s": 1}}, (1, 1), 1)
    ViewStore.open(folder).compact()
    ViewStore.open(folder).read_arrow()
if os.geteuid() == 0:
    os.seteuid({NOBODY})  # root may write anywhere; nobody may not
"""


def test_a_folder_without_write_rights() -> None:
    """Appending, compacting and creating all say that they cannot write, and where; reading goes on."""
    with tempfile.TemporaryDirectory() as folder:
        store = ViewStore.create(f"{folder}/view", AB)
        brief = store.stage(ab((1, "x", 1), (2, "y", 1)), 1) + store.stage(ab((2, "y", -1)), 1)
        store.append(brief, {"s": 1}, (1, 1), 1)  # a row is gone: there is something to compact
        _set_rights(folder, 0o555, 0o444)
        script = POWERLESS + (
            "store = ViewStore.open(sys.argv[1])\n"
            "attempt(lambda: store.append(ab((2, 'y', 1), arrival=2), {'s': 2}, (2, 2), 2))\n"
            "attempt(lambda: store.append(None, {'s': 2}, (2, 2), 2))\n"
            "attempt(store.compact)\n"
            "attempt(lambda: ViewStore.create(sys.argv[2], AB))\n"
            "print(store.read_arrow().num_rows)"
        )
        said = run_limited(script, store.place.uri, f"{folder}/new")
        _set_rights(folder, 0o755, 0o644)
        assert said.count("CannotWrite cannot write to the table at") == 4, said
        assert said.count("ermission denied") == 4, said
        assert said.splitlines()[-1] == "1"
        assert unharmed(store)


def _set_rights(folder: str, of_folders: int, of_files: int) -> None:
    for path in (Path(folder), *Path(folder).rglob("*")):
        path.chmod(of_folders if path.is_dir() else of_files)


def test_a_path_that_is_no_table(tmp_path: Path) -> None:
    """A missing folder, a file and an empty folder are named; nothing is made."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        with pytest.raises(NotAView, match=f"{name}' is not a Delta table"):
            ViewStore.open(tmp_path / name)
    assert not (tmp_path / "missing").exists()
    with pytest.raises(StoreError, match="cannot write to the table"):
        ViewStore.create(tmp_path / "file" / "view", AB)
    with pytest.raises(StoreError, match="Spark would expand it"):
        ViewStore.create(tmp_path / "a[1]", AB)


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """It is neither opened nor created over."""
    write_deltalake(tmp_path / "other", pa.table({"a": [1]}))
    with pytest.raises(NotAView, match="was not made by Weir"):
        ViewStore.open(tmp_path / "other")
    with pytest.raises(NotAView, match=r"a Delta table at .* already"):
        ViewStore.create(tmp_path / "other", AB)
    assert DeltaTable(tmp_path / "other").version() == 0


def test_a_version_of_somebody_else_is_noticed(store: ViewStore) -> None:
    """A foreign commit of rows is named; one that touches no file does not disturb; older versions still read."""
    table = DeltaTable(store.place.uri)
    table.alter.set_table_description("sales per city")
    assert ViewStore.open(store.place.uri).positions() == {"s": 1}
    table.delete()
    with pytest.raises(Damaged, match=r"version 3 .* was not written by Weir \(operation DELETE\)"):
        ViewStore.open(store.place.uri)
    assert rows_of(store.read_arrow(AsOf(version=1))) == [(1, "x")]
