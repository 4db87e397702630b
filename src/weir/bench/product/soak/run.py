"""A soak: maintain a complete view for a long time under writers, then ask of it everything that it promises.

Lag returns to zero, memory stays flat, the audit is clean, and every recorded state is the right one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weir.algebra.errors import WeirError
from weir.bench.product.soak.memory import Sampler, Samples
from weir.operation.warehouse import Warehouse
from weir.project.folder import RunKeys
from weir.proving.kinds import Login
from weir.proving.soak.databases import open_databases
from weir.proving.soak.journal import read_journal
from weir.proving.soak.recorded import Findings, Recorded
from weir.proving.soak.replay import SELECT
from weir.proving.soak.traffic import TrafficPlan, first_rows
from weir.warehouse.record import REWRITE

VIEW = f"CREATE MATERIALIZED VIEW lines WITH (consistency = 'complete', strategy = 'pvm-cc') AS {SELECT}"
PLACES = {"crm": "postgres", "sales": "mariadb", "shop": "sqlite"}
MOST_GROWTH = 1.5
JUDGED_FROM = 60.0  # seconds of traffic; before, a Java machine is still growing into its heap


@dataclass(frozen=True)
class Soak:
    """What is wanted."""

    seconds: float = 600.0
    rate: float = 100.0  # transactions per second at every source
    writers: int = 2  # at every source
    seed: int = 1
    master: str = "local[2]"
    run: RunKeys = field(default_factory=lambda: RunKeys(max_age=0.2))


@dataclass(frozen=True)
class SoakReport:
    """What came of it."""

    sources: Mapping[str, str]
    seconds: float  # of traffic
    transactions: int
    rate: float  # per second, over all sources
    rounds: int
    lag: dict[str, float]  # median and most while writing; and how long after the last write until all was committed
    memory: dict[str, Any]
    audit: dict[str, Any]
    recorded: Findings
    compactions: int

    @property
    def problems(self) -> list[str]:
        """Empty: the soak is passed."""
        found = list(self.recorded.wrong)
        if self.audit["missing"] or self.audit["extra"]:
            found.append(f"the audit is not clean: {self.audit}")
        if self.recorded.merged:
            found.append(f"{self.recorded.merged} arrivals are more than one transaction: complete is not held")
        if self.seconds >= JUDGED_FROM:
            found += [
                f"the memory of the {of} grows: {self.memory[of]}"
                for of in ("driver", "jvm")
                if (self.memory[of]["ratio"] or 0) > MOST_GROWTH
            ]
        return found

    def document(self) -> dict[str, Any]:
        complete = self.recorded.complete
        recorded = {key: value for key, value in asdict(self.recorded).items() if key != "wrong"}
        told = {"complete": complete, "problems": self.problems, "passed": not self.problems}
        return {**asdict(self), "recorded": recorded, **told}


def soak(wanted: Soak, places: Mapping[str, str] | None = None) -> SoakReport:
    """Starts databases, writes and maintains for the time wanted, and checks."""
    kinds = dict(places or PLACES)
    first = first_rows(wanted.seed)
    with (
        tempfile.TemporaryDirectory(prefix="weir-soak-") as place,
        open_databases(kinds, first, Path(place)) as databases,
    ):
        folder = Path(place)
        journal = folder / "journal"
        with Warehouse(folder / "warehouse", master=wanted.master, run=wanted.run) as warehouse:
            for name, database in databases.items():
                warehouse.source(name, database.kind, **database.options)
            warehouse.view(VIEW)
            logins = {name: database.login for name, database in databases.items()}
            running = _Running(warehouse, wanted, logins, journal)
            told = running.run()
            opened = {name: spec.open() for name, spec in warehouse.sources.items()}
            store = warehouse.store("lines")
            found = Recorded(store, opened, first, read_journal(journal)).check()
            for source in opened.values():
                source.close()
            compactions = sum(record.kind == REWRITE for record in store.history())
            return SoakReport(kinds, recorded=found, compactions=compactions, **told)


class _Running:
    """The time of the soak: the first load, the writers, and the way back to rest."""

    def __init__(self, warehouse: Warehouse, wanted: Soak, logins: Mapping[str, Login], journal: Path) -> None:
        self.warehouse, self.wanted, self.logins, self.journal = warehouse, wanted, logins, journal
        self.lags: list[float] = []

    def run(self) -> dict[str, Any]:
        self.warehouse.run(until_caught_up=True)
        self.warehouse.start()
        with Sampler() as samples:
            wrote = self._write()
        ended = time.monotonic()
        self._wait_until_caught_up()
        back = time.monotonic() - ended
        audit = self.warehouse.verify("lines")
        rounds = self.warehouse.status()["rounds"]
        self.warehouse.stop()
        return {
            "seconds": wrote["seconds"],
            "transactions": wrote["transactions"],
            "rate": round(wrote["transactions"] / wrote["seconds"], 1),
            "rounds": rounds,
            "lag": {**self._lag(), "zero_after": round(back, 2)},
            "memory": _memory(samples),
            "audit": audit.document(),
        }

    def _write(self) -> dict[str, Any]:
        """The writers, in a process of their own; lag is looked at meanwhile."""
        wanted = self.wanted
        plan = TrafficPlan(self.logins, wanted.rate, wanted.writers, wanted.seconds, wanted.seed)
        command = [sys.executable, "-m", "weir.proving.soak.traffic", plan.document(), str(self.journal)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            while process.poll() is None:
                self.lags += [view["lag"] for view in self.warehouse.status()["views"] if view["lag"] is not None]
                time.sleep(0.25)
            assert process.stdout is not None
            told = process.stdout.read()
        if process.returncode:
            raise WeirError("the soak's writers have failed: see what they said above")
        document: dict[str, Any] = json.loads(told)
        return document

    def _wait_until_caught_up(self, patience: float = 120.0) -> None:
        """Everything written by now is committed."""
        asked, until = time.time(), time.monotonic() + patience
        while any(time.time() - (view["lag"] or 0.0) < asked for view in self.warehouse.status()["views"]):
            if time.monotonic() > until:
                raise WeirError(f"the views have not caught up within {patience:.0f} s: {self.warehouse.status()}")
            time.sleep(0.05)

    def _lag(self) -> dict[str, float]:
        ordered = sorted(self.lags)
        return {"median": round(ordered[len(ordered) // 2], 2), "most": round(ordered[-1], 2)}


def _memory(samples: Samples) -> dict[str, Any]:
    return {"samples": len(samples.times), **{of: samples.growth(of) for of in samples.sizes}}
