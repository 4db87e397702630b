"""docs/walk.md tells the truth: its rooms are those that import-linter holds, and one real change takes its way."""

from __future__ import annotations

import re
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.shop import Shop
from weir.sweeping import job
from weir.sweeping.task import SweepTask

ROOT = Path(__file__).parents[2]
WALK = (ROOT / "docs" / "walk.md").read_text()
STEP = re.compile(r"`src/(weir/[\w/]+)\.py`: `([\w.]+)`")


def section(heading: str) -> str:
    """The text below a heading, up to the next."""
    return WALK.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return list(contracts[0]["layers"])


def test_the_rooms_are_those_of_the_contract() -> None:
    """The table lists them from the top down, as import-linter does."""
    rows = re.findall(r"^\| (`.*?) \|", section("The rooms"), re.MULTILINE)
    told = [re.findall(r"`(\w+)`", row) for row in rows]
    held = [re.findall(r"weir\.(\w+)", layer) for layer in layers()]
    assert [sorted(row) for row in told] == [sorted(layer) for layer in held]


def test_every_package_is_a_room() -> None:
    """Nothing lies beside the rooms but a few single files."""
    packages = {path.parent.name for path in (ROOT / "src" / "weir").glob("*/__init__.py")}
    named = {name for layer in layers() for name in re.findall(r"weir\.(\w+)", layer)} - {"messages"}
    assert packages == named


def steps() -> list[tuple[str, str]]:
    """Module and function of every step of the way, in order."""
    return [(path.replace("/", "."), name) for path, name in STEP.findall(section("The way"))]


def code_of(module: str, name: str) -> CodeType:
    found: Any = import_module(module)
    for part in name.split("."):
        found = found.__dict__[part] if isinstance(found, type) else getattr(found, part)
    code = found.__code__
    assert isinstance(code, CodeType), f"{module}: {name} is no function"
    return code


@contextmanager
def first_calls(wanted: dict[CodeType, str]) -> Iterator[list[str]]:
    """The wanted functions in the order in which they are first called, in any thread of this process, from the first
    of them on: what is planned before the round is no part of the way.
    """
    seen: list[str] = []
    beginning = next(iter(wanted.values()))

    def watch(frame: FrameType, event: str, argument: object) -> None:
        name = wanted.get(frame.f_code) if event == "call" else None
        if name is not None and name not in seen and (seen or name == beginning):
            seen.append(name)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


class _Here:
    """A job whose tasks run in this process, so that they can be watched."""

    def __init__(self, work: SweepTask) -> None:
        self.work = work

    def toArrow(self) -> pa.Table:  # noqa: N802  # as Spark's
        tasks = pa.RecordBatch.from_arrays([pa.array(range(self.work.task_count), pa.int64())], ["id"])
        return pa.Table.from_batches(list(self.work(iter([tasks]))))


@pytest.mark.spark
def test_a_change_takes_this_way(open_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function of the way is called for one change, each for the first time after the one before it."""
    way = steps()
    assert len(way) > 20
    monkeypatch.setattr(job, "_plain_job", lambda spark, work: _Here(work))
    shop = open_shop(kinds=("sqlite", "sqlite", "sqlite"))
    shop.view(consistency="complete")
    shop.catch_up()
    shop.warehouse.stop()  # threads that are watched begin anew
    shop.write("sales", "UPDATE orders SET amount = 5 WHERE id = 10")
    expected = [f"{module}: {name}" for module, name in way]
    with first_calls({code_of(*step): f"{step[0]}: {step[1]}" for step in way}) as seen:
        shop.catch_up()
        assert shop.warehouse.read("lines").count()
        assert not shop.warehouse.verify("lines").missing
    assert seen == list(dict.fromkeys(expected))
