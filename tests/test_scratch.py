"""Private folders: who can look in, who removes them, and whose are left alone."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from weir.algebra.errors import WeirError
from weir.scratch import PrivateFolder, machine_place, private_file, private_subfolder

HOLDER = """
import sys
from pathlib import Path
from weir.scratch import PrivateFolder
folder = PrivateFolder(Path(sys.argv[1]))
(folder.path / "rows").write_text("secret")
print(folder.path, flush=True)
sys.stdin.read()
"""
Holder = tuple[subprocess.Popen[str], Path]


@pytest.fixture
def hold() -> Iterator[Callable[[Path], Holder]]:
    """Starts processes that have a folder in a place, and live until they are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(place: Path) -> Holder:
        made = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(made)
        assert made.stdout is not None
        return made, Path(made.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


@contextmanager
def masked(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277], ids=oct)
def test_nobody_else_can_look_in(tmp_path: Path, umask: int) -> None:
    """Whatever the umask is; also a place that was open before."""
    place = tmp_path / "place"
    place.mkdir(0o777)
    place.chmod(0o777)
    with masked(umask):
        folder = PrivateFolder(place)
        inner = private_subfolder(folder.path / "load-1")
        private_file(inner / "rows").close()
    assert [mode(path) for path in (place, folder.path, inner)] == [0o700] * 3
    assert mode(inner / "rows") == 0o600
    folder.close()


def test_a_folder_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    """With its place, unless others are there."""
    first, second = PrivateFolder(tmp_path / "place"), PrivateFolder(tmp_path / "place")
    first.close()
    assert not first.path.exists()
    assert second.path.exists()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_the_next_removes_what_the_dead_have_left_and_nothing_else(
    tmp_path: Path, hold: Callable[[Path], Holder]
) -> None:
    """Of two processes one is killed; also what an earlier Weir has left, which had no locks."""
    place = tmp_path / "place"
    (victim, left), (_, alive) = hold(place), hold(place)
    earlier = private_subfolder(place / "load-0123")
    (earlier / "rows.parquet").write_text("secret")
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert (left / "rows").read_text() == "secret"
    mine = PrivateFolder(place)
    assert (alive / "rows").read_text() == "secret"
    names = {path.name for path in (alive, mine.path)}
    assert {path.name for path in place.iterdir()} == names | {f"{name}.owner" for name in names}
    mine.close()
    assert {path.name for path in place.iterdir()} == {alive.name, f"{alive.name}.owner"}


def test_many_at_once_take_nothing_from_each_other(tmp_path: Path) -> None:
    """Each clears while others make and close theirs."""

    def use(_: int) -> bool:
        folder = PrivateFolder(tmp_path / "place")
        (folder.path / "rows").write_text("mine")
        other = PrivateFolder(tmp_path / "place")
        there = (folder.path / "rows").read_text() == "mine" and other.path.is_dir()
        folder.close()
        other.close()
        return there

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(200)))
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_was_forked_does_not_take_it_along(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "place")
    child = os.fork()
    if not child:
        folder.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()
    folder.close()


def test_a_place_that_is_somebody_elses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all can write somebody may have been there first: with a link, or with a folder of theirs."""
    mine = tmp_path / "mine"
    (mine / "letters").mkdir(parents=True)
    (tmp_path / "link").symlink_to(mine)
    with pytest.raises(WeirError, match=r"link cannot hold private data: .*; remove it, or choose another.*TMPDIR"):
        PrivateFolder(tmp_path / "link")
    assert (mine / "letters").exists()
    monkeypatch.setattr("os.geteuid", lambda: mine.stat().st_uid + 1)
    with pytest.raises(WeirError, match="mine cannot hold private data: it belongs to another account"):
        PrivateFolder(mine)
    assert (mine / "letters").exists()


def test_a_place_where_nothing_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "place"):
        with pytest.raises(WeirError, match=rf"{place} cannot hold private data: (Not a directory|File exists)"):
            PrivateFolder(place)


def test_a_place_of_each_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Below the temporary folder that TMPDIR names."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert machine_place() == tmp_path / f"weir-{os.geteuid()}"
