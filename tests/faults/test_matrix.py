"""Every fault in every phase, at every kind of source: who is not concerned keeps its pace, who is goes on by itself or
says what to do, and nobody is ever wrong.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.faults import matrix
from tests.faults.matrix import Fault
from tests.faults.relay import Relay
from tests.faults.ward import CALM, LOAD, MOST_LAG, Patient, Ward
from tests.operation.test_damaged_tables import cut, log_of
from tests.operation.test_unwritable import full, read_only, small_disk
from tests.runtime.shop import wait_until
from weir.algebra.errors import WeirError
from weir.proving.databases import Servers
from weir.proving.servers.server import PrivateServer
from weir.sources.sqlite.installing import SqliteCapture

pytestmark = [pytest.mark.spark, pytest.mark.slow]
OpenWard = Callable[..., Ward]


@pytest.fixture(scope="module")
def warmed(servers: Servers, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """Whatever is slow the first time has happened: a load and a sweep beside others."""
    ward = Ward(servers, spark, tmp_path_factory.mktemp("warm"), ["sqlite", "postgres", "mariadb"])
    with ward.running():
        ward.wait_for_rest(ward.patients)
        for patient in ward.patients.values():
            patient.write()
        ward.wait_for_rest(ward.patients)
    ward.close()
    return spark


@pytest.fixture
def open_ward(servers: Servers, warmed: SparkSession, tmp_path: Path) -> Iterator[OpenWard]:
    with ExitStack() as opened:

        def open_(kinds: Sequence[str], relayed: bool = False, own: bool = False) -> Ward:
            ward = Ward(opened.enter_context(Servers()) if own else servers, warmed, tmp_path, kinds, relayed)
            opened.callback(ward.close)
            return ward

        yield open_


# -- how a fault is treated --------------------------------------------------------------------------------------------


def one_by_one(
    ward: Ward, fault: Fault, lasting: float, heal: Callable[[], None] = lambda: None, sparing: bool = True
) -> None:
    """All patients in the same phase, one phase after the other; what has failed is loaded again in between."""
    ward.arm(dict.fromkeys(ward.patients, LOAD))
    phases = list(fault.phases)
    while phases:
        with ward.running():
            failed = set[str]()
            while phases and not failed:
                failed = treated(ward, phases.pop(0), lasting, heal)
        assert not failed or fault.rule.state == "failed", [ward.seen.told[name] for name in failed]
        if failed:
            ward.reload(failed)
    judge(ward, fault, sparing)


def treated(ward: Ward, phase: str, lasting: float, heal: Callable[[], None]) -> set[str]:
    """All are struck in one phase, and healed; who says that he cannot go on."""
    if phase != LOAD:
        ward.wait_for_rest([CALM, *ward.patients])
        ward.arm(dict.fromkeys(ward.patients, phase))
        ward.provoke()
    ward.wait_for_strikes(ward.patients)
    time.sleep(lasting)
    heal()
    return recovered(ward, ward.patients)


def side_by_side(ward: Ward, fault: Fault, lasting: float, heal: Callable[[Patient], None]) -> None:
    """Every patient in a phase of its own; one phase is struck after the other, and all are ill together."""
    phases = dict(zip(ward.patients, [phase for phase in fault.phases for _ in fault.kinds], strict=True))
    ward.arm({name: phase for name, phase in phases.items() if phase == LOAD})
    with ward.running():
        ward.wait_for_strikes(name for name, phase in phases.items() if phase == LOAD)
        ward.wait_for_rest([CALM, *(name for name, phase in phases.items() if phase != LOAD)])
        for phase in fault.phases[1:]:
            ward.arm({name: each for name, each in phases.items() if each == phase})
            ward.provoke()
        time.sleep(lasting)
        for patient in ward.patients.values():
            heal(patient)
        assert recovered(ward, ward.patients) == set()
    judge(ward, fault)


def recovered(ward: Ward, names: Iterable[str]) -> set[str]:
    """Once more something is written, and everybody gets it; who says that he cannot."""
    for name in names:
        ward.patients[name].write()
    return ward.wait_for_rest(names)


def judge(ward: Ward, fault: Fault, sparing: bool = True) -> None:
    """A calm view that is spared kept its pace; the others were told of as the table says; all are right."""
    print(f"{fault.name}: the calm view was at most {ward.seen.lag:.1f} s behind")
    if sparing:
        assert ward.seen.lag < MOST_LAG, f"the calm view was {ward.seen.lag:.1f} s behind"
        assert {state for state, _ in ward.seen.told[CALM]} <= {"new", "running"}
    for name in ward.patients:
        for state, problem in ward.seen.told[name]:
            assert state in ("new", "running", "waiting", fault.rule.state), (name, state, problem)
            if state == fault.rule.state:
                assert re.fullmatch(fault.rule.reads, problem, re.DOTALL), (name, problem)
    ward.assert_exact()


# -- sources -----------------------------------------------------------------------------------------------------------


def relay_of(patient: Patient) -> Relay:
    assert patient.relay is not None
    return patient.relay


def test_connections_dropped(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.DROPPED.kinds, relayed=True)
    ward.strike = lambda patient: relay_of(patient).drop()
    one_by_one(ward, matrix.DROPPED, 0.1)


def test_silence(open_ward: OpenWard) -> None:
    fault = matrix.SILENT
    ward = open_ward(fault.kinds * len(fault.phases), relayed=True)
    ward.strike = lambda patient: relay_of(patient).silence()
    side_by_side(ward, fault, 30.0, lambda patient: relay_of(patient).speak())
    for name in ward.patients:
        assert any(state == "waiting" for state, _ in ward.seen.told[name]), name


def test_servers_killed(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.KILLED.kinds, own=True)
    ward.strike = kill
    one_by_one(ward, matrix.KILLED, 1.0, lambda: bring_back(ward))


def kill(patient: Patient) -> None:
    if patient.kind == "sqlite":
        move(patient, "", ".away")
    else:
        server_of(patient).kill()


def bring_back(ward: Ward) -> None:
    for patient in ward.patients.values():
        if patient.kind == "sqlite":
            move(patient, ".away", "")
        else:
            server_of(patient).start()


def server_of(patient: Patient) -> PrivateServer:
    servers = patient.database.made.servers
    return servers.mariadb if patient.kind == "mariadb" else servers.postgres


def move(patient: Patient, before: str, after: str) -> None:
    """A SQLite file, as when its disk is away."""
    path = str(patient.database.options["path"])
    for part in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(path + part + before, path + part + after)


def test_servers_restarted(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.RESTARTED.kinds, own=True)
    with ThreadPoolExecutor() as administrators:  # who restarts a server is not who works with it
        under_way: list[Future[None]] = []
        ward.strike = lambda patient: under_way.append(administrators.submit(server_of(patient).restart))
        one_by_one(ward, matrix.RESTARTED, 0.1, lambda: [restart.result() for restart in under_way].clear())


def test_logs_gone(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.LOG_GONE.kinds, own=True)
    ward.strike = lose_log
    one_by_one(ward, matrix.LOG_GONE, 0.1)
    failed = {name for name, told in ward.seen.told.items() if any(state == "failed" for state, _ in told)}
    assert failed == set(ward.patients)


def lose_log(patient: Patient) -> None:
    made = patient.database.made
    if patient.kind == "sqlite":
        SqliteCapture(made.spec().options).remove(dry_run=False)
        patient.database.capture()
        return
    with closing(made.administrator()) as admin:
        if patient.kind == "postgres":
            wait_until(partial(drop_slot, admin, made.name))
        else:
            admin.cursor().execute("RESET MASTER")


def drop_slot(admin: Any, database: str) -> bool:
    """Whoever reads it may be quick to come back."""
    slots = f"FROM pg_replication_slots WHERE database = '{database}'"
    admin.execute(f"SELECT pg_terminate_backend(active_pid) {slots} AND active")
    with suppress(psycopg.errors.ObjectInUse):
        return bool(admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}").fetchall())
    return False


# -- Spark -------------------------------------------------------------------------------------------------------------


def test_tasks_killed(open_ward: OpenWard, spark: SparkSession) -> None:
    ward = open_ward(matrix.TASK_KILLED.kinds)
    ward.strike = lambda patient: threading.Thread(target=kill_workers, args=(spark, 0.2)).start()
    one_by_one(ward, matrix.TASK_KILLED, 0.3, sparing=False)  # tasks are everybody's
    assert any("is tried again" in problem for told in ward.seen.told.values() for _, problem in told)


def kill_workers(spark: SparkSession, seconds: float) -> None:
    """Every Python process of Spark's, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for pid in workers_of(spark.sparkContext._gateway.proc.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def workers_of(java: int) -> list[int]:
    """Without the daemon that forks them."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    daemons = [pid for pid, parent in parents.items() if parent == java]
    return [pid for pid, parent in parents.items() if parent in daemons]


# -- the store ---------------------------------------------------------------------------------------------------------


def test_disk_full(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.DISK_FULL.kinds)
    with ExitStack() as disks, ExitStack() as filled:
        own = {name: disks.enter_context(small_disk(ward.path / name)) for name in ward.patients}
        ward.strike = lambda patient: filled.enter_context(full_table(ward.path / patient.name, own[patient.name]))
        one_by_one(ward, matrix.DISK_FULL, 1.0, filled.close)
        ward.warehouse.close()


def test_read_only(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.READ_ONLY.kinds)
    with ExitStack() as locked:
        ward.strike = lambda patient: locked.enter_context(read_only(made(ward.path / patient.name)))
        one_by_one(ward, matrix.READ_ONLY, 1.0, locked.close)


@contextmanager
def full_table(table: Path, own: bool) -> Iterator[None]:
    """Without a disk of its own it is taken away instead."""
    with full(table, own) if own else read_only(table):
        yield


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_commits_damaged(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.DAMAGED.kinds)
    ward.strike = lambda patient: cut_last(ward.path / patient.name)
    one_by_one(ward, matrix.DAMAGED, 0.1)


def cut_last(table: Path) -> None:
    for commit in log_of(table)[-1:]:
        cut(commit)


def test_second_runner(open_ward: OpenWard) -> None:
    ward = open_ward(matrix.SECOND.kinds)
    refusals: list[str] = []

    def start_another(patient: Patient) -> None:
        with pytest.raises(WeirError) as refused, ward.open(patient) as second:
            second.run(until_caught_up=True)
        refusals.append(str(refused.value))

    ward.strike = start_another
    one_by_one(ward, matrix.SECOND, 0.1)
    assert len(refusals) == matrix.SECOND.cases
    assert all(re.fullmatch(matrix.SECOND.rule.reads, said) for said in refusals)
