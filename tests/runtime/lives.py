"""Lives of a process, one after the other, over the same databases and tables, while writers write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from weir.proving.databases import PrivateDatabase
from weir.proving.soak.journal import Journal
from weir.proving.soak.traffic import TrafficPlan, write

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds for one life to get where it shall die


class Life:
    """One process. It starts at once and then waits for its task, so that the next can start while one runs."""

    def __init__(self, folder: Path, number: int) -> None:
        self.log = folder / f"life-{number}.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"}
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.recovery_life", str(folder)], cwd=REPOSITORY, env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def run(self, task: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code, and what it said."""
        try:
            out, _ = self.process.communicate(json.dumps(task) + "\n", PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still alive after {PATIENCE} s of {task}:\n{self.told()}") from None
        finally:
            self.end()
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]

    def told(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@dataclass
class Lives:
    """The present one, and the next, which is starting already."""

    folder: Path
    number: int = 0
    next: Life | None = None

    def __enter__(self) -> Self:
        self.next = Life(self.folder, self.number)
        return self

    def __exit__(self, *problem: object) -> None:
        if self.next is not None:
            self.next.end()

    def _begin(self) -> Life:
        life, self.number = self.next, self.number + 1
        assert life is not None
        self.next = Life(self.folder, self.number)
        return life

    def die(self, point: str, times: int, loaded: bool) -> None:
        """A life that ends at this point, passed so many times; ``loaded``: since all views are."""
        life = self._begin()
        code, said = life.run({"point": point, "times": times, "loaded": loaded})
        assert code == -signal.SIGKILL, f"'{point}' was not reached {times} times:\n{life.told()}"
        assert said[-1] == {"killed": point}

    def live(self) -> dict[str, Any]:
        """A life that catches up, audits, and ends well."""
        life = self._begin()
        code, said = life.run({})
        assert code == 0, life.told()
        return said[-1]


@contextmanager
def writers(databases: Mapping[str, PrivateDatabase], journal: Path, seed: int, rate: float) -> Iterator[None]:
    """One writer for every source, so that the journal has its transactions in the order of their commits."""
    plan = TrafficPlan(
        {name: database.login for name, database in databases.items()}, rate, writers=1, seconds=3600, seed=seed
    )
    stop, problems, book = threading.Event(), list[BaseException](), Journal(journal)
    thread = threading.Thread(target=lambda: problems.extend(write(plan, book, stop)))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        book.close()
    assert not problems, problems
