"""A ward: one runner, a calm view over a healthy source, and patients, each a source with a view of its own.

A patient is **armed** with a phase: when its batch gets there, the fault strikes, in the very thread that is at work.
Meanwhile the healthy source is written to all the time, and what the runner says of itself is written down.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.faults.relay import Relay
from tests.runtime.databases import Database
from tests.runtime.shop import wait_until
from weir import Warehouse, points
from weir.algebra.errors import WeirError
from weir.project.folder import RunKeys
from weir.proving.databases import Servers

LOAD, VISIT, SWEEP, WRITE, ACKNOWLEDGE, IDLE = "first load", "visit", "sweep", "write", "acknowledge", "idle"
PHASES: Mapping[str, str | None] = {
    LOAD: points.LOADING,
    VISIT: points.VISITING,
    SWEEP: points.SWEEPING,
    WRITE: points.BEFORE_COMMIT,
    ACKNOWLEDGE: points.BEFORE_ACKNOWLEDGE,
    IDLE: None,
}
CALM = "calm"
MOST_LAG = 5.0  # seconds that a view may be behind which has nothing to do with the fault
PATIENCE = 120.0
TABLES = (
    "CREATE TABLE head (id bigint PRIMARY KEY NOT NULL, name varchar(40))",
    "CREATE TABLE line (id bigint PRIMARY KEY NOT NULL, head bigint, amount bigint)",
    "CREATE INDEX line_head ON line (head)",
    "INSERT INTO head VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO line VALUES (1, 1, 10), (2, 2, 20)",
)
_NAMED = re.compile(r"weir-(?:write-)?(\w+)$")  # the threads of a source, a view, and a view's writes


@dataclass
class Patient:
    """One source with its view, both called ``name``."""

    name: str
    database: Database
    relay: Relay | None = None
    phase: str = ""  # armed with it
    struck: threading.Event = field(default_factory=threading.Event)
    _number: int = 100

    @property
    def kind(self) -> str:
        return self.database.kind

    def write(self) -> None:
        """A transaction that a sweep has to ask for."""
        self._number += 1
        self.database.transact([f"INSERT INTO line VALUES ({self._number}, {1 + self._number % 2}, 1)"])

    def options(self) -> dict[str, Any]:
        return self.database.options | ({} if self.relay is None else {"port": self.relay.port})


@dataclass
class Seen:
    """What the runner has said of itself."""

    lag: float = 0.0  # the calm view's longest
    told: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by view: states and problems

    def note(self, views: Iterable[Mapping[str, Any]]) -> None:
        for view in views:
            told = self.told.setdefault(view["name"], [])
            said = (str(view["state"]), str(view["problem"]))
            if said not in told[-1:]:
                told.append(said)
            if view["name"] == CALM:
                self.lag = max(self.lag, view["lag"] or 0.0)


class Ward:
    """``strike``: what happens to a patient."""

    def __init__(
        self, servers: Servers, spark: SparkSession, folder: Path, kinds: Iterable[str], relayed: bool = False
    ) -> None:
        self.spark, self.path = spark, folder / "warehouse"
        self.strike: Callable[[Patient], None] = lambda patient: None
        self.calm = Patient(CALM, _database(servers, "sqlite"))
        self.patients = {
            name: Patient(name, _database(servers, kind), _relay(servers, kind) if relayed else None)
            for name, kind in ((f"p{number}", kind) for number, kind in enumerate(kinds))
        }
        self.seen = Seen()
        with self.open(self.calm) as warehouse:  # it is well before anybody is ill
            warehouse.run(until_caught_up=True)
            self.calm.write()
            warehouse.run(until_caught_up=True)
        self.warehouse = self.open(self.calm, *self.patients.values())
        self._ending = threading.Event()
        points.watch(self._reached)

    def open(self, *patients: Patient) -> Warehouse:
        warehouse = Warehouse(self.path, spark=self.spark, run=RunKeys(poll=0.05, max_age=0.0))
        for each in patients:
            warehouse.source(each.name, each.kind, **each.options())
            warehouse.view(
                f"CREATE MATERIALIZED VIEW {each.name} WITH (consistency = 'complete', strategy = 'sweep') AS SELECT "
                f"l.id, h.name, l.amount FROM {each.name}.line l JOIN {each.name}.head h ON h.id = l.head"
            )
        return warehouse

    def close(self) -> None:
        points._watchers.remove(self._reached)
        self.warehouse.close()
        for each in (self.calm, *self.patients.values()):
            if each.relay is not None:
                each.relay.close()
            each.database.close()

    # -- striking ------------------------------------------------------------------------------------------------------

    def arm(self, phases: Mapping[str, str]) -> None:
        for name, phase in phases.items():
            patient = self.patients[name]
            patient.struck.clear()
            patient.phase = phase

    def _reached(self, point: str) -> None:
        named = _NAMED.match(threading.current_thread().name)
        patient = self.patients.get(named[1]) if named else None
        if patient is not None and patient.phase and PHASES[patient.phase] == point:
            self._strike(patient)

    def _strike(self, patient: Patient) -> None:
        patient.phase = ""
        try:
            self.strike(patient)
        finally:
            patient.struck.set()

    def provoke(self) -> None:
        """Brings every armed patient to its phase."""
        armed = [patient for patient in self.patients.values() if patient.phase and not patient.struck.is_set()]
        for patient in armed:
            if patient.phase == IDLE:
                self._strike(patient)
            else:
                self._write_to_be_struck(patient)
        self.wait_for_strikes(patient.name for patient in armed)

    def _write_to_be_struck(self, patient: Patient) -> None:
        """A channel may get to the phase by itself, and then the writer's own connection falls with the server."""
        try:
            patient.write()
        except Exception:
            if not patient.struck.wait(PATIENCE):
                raise

    def wait_for_strikes(self, names: Iterable[str]) -> None:
        for patient in (self.patients[name] for name in names):
            assert patient.struck.wait(PATIENCE), f"{patient.name} ({patient.kind}) has not got to '{patient.phase}'"

    # -- watching ------------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """The runner works, the calm source is written to, and what is said is noted."""
        self._ending.clear()
        self.warehouse.start()
        threads = [threading.Thread(target=act) for act in (self._write_calmly, self._watch)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in threads:
                thread.join()
            self.warehouse.stop()

    def _write_calmly(self) -> None:
        while not self._ending.wait(0.3):
            self.calm.write()

    def _watch(self) -> None:
        while not self._ending.wait(0.1):
            self.seen.note(self.warehouse.status()["views"])

    def views(self) -> dict[str, dict[str, Any]]:
        return {view["name"]: view for view in self.warehouse.status()["views"]}

    def wait_for_rest(self, names: Iterable[str]) -> set[str]:
        """Until everyone has got all that was written by now, or has failed; who has failed."""
        names, began = set(names), time.time()
        failed: set[str] = set()

        def rests() -> bool:
            views = self.views()
            failed.update(name for name in names if views[name]["state"] == "failed")
            fresh = {n for n in names - failed if views[n]["state"] == "running" and views[n]["lag"] is not None}
            return all(time.time() - views[name]["lag"] > began for name in fresh) and names == failed | fresh

        try:
            wait_until(rests, PATIENCE)
        except AssertionError:
            raise AssertionError({n: (v["state"], v["problem"], v["lag"]) for n, v in self.views().items()}) from None
        return failed

    def reload(self, names: Iterable[str]) -> None:
        """What the failed ones have asked for; others may find out at this start."""
        again = set(names)
        for _ in range(2):
            try:
                self.warehouse.run(until_caught_up=True, reload=sorted(again))
                break
            except WeirError:
                again = {name for name, view in self.views().items() if view["state"] == "failed"}
                assert again
            finally:
                self.seen.note(self.warehouse.status()["views"])
                self.warehouse.stop()

    def assert_exact(self) -> None:
        for audit in self.warehouse.verify_all():
            assert (audit.missing, audit.extra) == (0, 0), audit


def _database(servers: Servers, kind: str) -> Database:
    database = Database(servers, kind)
    database.create(("head", "line"), TABLES)
    return database


def _relay(servers: Servers, kind: str) -> Relay | None:
    if kind == "sqlite":
        return None
    return Relay((servers.mariadb if kind == "mariadb" else servers.postgres).port)
