"""The warehouse, as its user sees it: sources, views, run, read, verify.

    from weir import Warehouse

    warehouse = Warehouse("warehouse")
    warehouse.source("crm", kind="sqlite", path="crm.db")
    warehouse.source("sales", kind="sqlite", path="sales.db")
    warehouse.view("CREATE MATERIALIZED VIEW lines WITH (consistency = 'complete') AS SELECT ...")
    warehouse.run(until_caught_up=True)
    warehouse.read("lines").show()

It works in a Spark session of its own, or in one that is given (a notebook's, a cluster's).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.algebra.view import View
from weir.messages import Position
from weir.operation.acceptance import Acceptance, all_refused
from weir.operation.admission import Absent, told
from weir.operation.audit import Audit, NotAudited, audited
from weir.operation.control import ControlServer, NoRunner, ask_runner
from weir.operation.identity import take_identity
from weir.operation.locking import FOLDER, REFUSALS, RunnerLock, cannot_be_written, does_not_answer
from weir.operation.metrics import MetricsServer
from weir.operation.status import status_of, with_outsiders, write_status
from weir.operation.upkeep import Care
from weir.planning.explanation import Explanation, explain
from weir.project.folder import Project, RunKeys, ViewText
from weir.project.kinds import SourceSpec, specify
from weir.project.survey import Survey, named_sources
from weir.rounds.channels import Channel
from weir.rounds.engine import Engine, RoundReport, Settings
from weir.rounds.units import FAILED, RUNNING, WAITING, Unit
from weir.rounds.views import ViewTables
from weir.scratch import PrivateFolder, machine_place
from weir.spark.session import Pulse, inside, open_session
from weir.sweeping.lookups import driver_address
from weir.warehouse.errors import StoreError
from weir.warehouse.record import NOW, AsOf
from weir.warehouse.store import ViewStore

log = logging.getLogger("weir")
OnRound = Callable[[RoundReport], None]

_INCOMPLETE = "waits for the other parts of a transaction, which its sources have not delivered"

class Warehouse:
    """Materialized views over several databases, in Delta tables below ``path``."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        spark: SparkSession | None = None,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        storage: Mapping[str, str] | None = None,
        run: RunKeys | None = None,
    ) -> None:
        self.path = _place(path)
        self.run_keys = run or RunKeys()
        self._given, self._master, self._settings = spark, master, dict(settings or {})
        self._tables = ViewTables(self.path, dict(storage or {}))
        self._session: SparkSession | None = None
        self.sources: dict[str, SourceSpec] = {}
        self.views: dict[str, ViewText] = {}
        self._engine: Engine | None = None
        self._care: Care | None = None
        self._absent: Absent | None = None
        self._owner = ""  # the warehouse's mark at its sources
        self._refused: dict[str, WeirError] = {}  # views that cannot be run as they are
        self._again: set[str] = set()  # views that are to be loaded again when they begin
        self._resources = ExitStack()
        self._survey: Survey | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._thread_problem: BaseException | None = None
        self._turn = threading.RLock()  # whoever makes a round holds it
        self._guests = 0  # audits that wait for their turn
        self._started_at = time.time()

    @classmethod
    def open(cls, folder: str | os.PathLike[str] = ".", spark: SparkSession | None = None) -> Self:
        """The warehouse of a project folder."""
        return cls.of(Project.read(folder), spark)

    @classmethod
    def of(cls, project: Project, spark: SparkSession | None = None) -> Self:
        keys = project.spark
        made = cls(project.warehouse_path, spark, keys.place, keys.settings, project.storage_options(), project.run)
        made.sources, made.views = dict(project.sources), dict(project.views)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what there is -------------------------------------------------------------------------------------------------

    def source(self, name: str, kind: str, **options: Any) -> Self:
        """A source, with the keys that ``weir.toml`` has for its kind."""
        self._refuse_while_running("a source")
        self.sources[name] = specify(name, kind, options, Path.cwd())
        self._survey = None
        return self

    def view(self, text: str) -> Self:
        """A view: ``CREATE MATERIALIZED VIEW name WITH (...) AS SELECT ... FROM source.table``."""
        self._refuse_while_running("a view")
        found = ViewText.read(text)
        self.views[found.name] = found
        self._survey = None  # it may use sources that nobody was asked about
        return self

    def _refuse_while_running(self, what: str) -> None:
        if self._engine is not None:
            raise WeirError(f"{what} cannot be added while the warehouse runs; call stop() or close() first")

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs in."""
        if self._session is None:
            given = self._given
            self._session = inside(given) if given is not None else self._open_session()
        return self._session

    def _open_session(self) -> SparkSession:
        """Spark's own words go to a file beside local tables."""
        log = None if "://" in self.path else os.path.join(self.path, FOLDER, "spark.log")
        return open_session(self._master, settings=self._settings, log=log)

    @property
    def survey(self) -> Survey:
        """What the sources that are used say of themselves."""
        if self._survey is None:
            used = [source for text in self.views.values() for source in named_sources(text, self.sources)]
            self._survey = Survey.of_reachable(self.sources, dict.fromkeys(used))
        return self._survey

    def parsed_view(self, name: str) -> View:
        if name not in self.views:
            raise WeirError(f"there is no view '{name}'; {did_you_mean(name, self.views, 'the views are')}")
        return self.survey.view(self.views[name])

    def explain(self, name: str) -> Explanation:
        """The view's normal form, hops, algorithm and why, level and cost."""
        return explain(self.survey, self.parsed_view(name), self.run_keys.max_batch)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        until_caught_up: bool = False,
        seconds: float | None = None,
        reload: Iterable[str] = (),
        on_round: OnRound | None = None,
    ) -> None:
        """Maintains the views: until stopped, for some seconds, or until everything visible by now is committed."""
        engine = self._started(reload)
        assert self._care is not None
        with self._care.working():
            self._keep_running(engine, until_caught_up, seconds, on_round)
        self._tell(on_round, RoundReport())

    def _keep_running(
        self, engine: Engine, until_caught_up: bool, seconds: float | None, on_round: OnRound | None
    ) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        asked, pulse = time.time(), Pulse(self.spark)
        while not self._stopping.is_set() and (end is None or time.monotonic() < end):
            pulse.check()
            with self._turn:
                self._admit(engine)
                report = engine.round(hurry=until_caught_up)
            self._tell(on_round, report)
            if until_caught_up and self._caught_up(engine, asked, report):
                break
            self._pause(report, gather=not until_caught_up)
        with self._turn:
            engine.flush()

    def _caught_up(self, engine: Engine, asked: float, report: RoundReport) -> bool:
        """Whether all that was visible when ``run`` was called is committed; a view that cannot be is said."""
        if report.busy or report.working:
            return False
        with self._turn:
            engine.flush()
        stuck = [unit for unit in engine.units if _is_stuck(unit, engine)]
        if not all(unit.caught_up_at >= asked for unit in engine.units if unit not in stuck):
            return False
        absent = {} if self._absent is None else self._absent.problems
        refused = {name: str(problem) for name, problem in self._refused.items()}
        waiting = [(unit.name, unit.problem or _INCOMPLETE) for unit in stuck]
        if (problem := told({**refused, **absent}, waiting)) is not None:
            raise problem
        return True

    def _admit(self, engine: Engine) -> None:
        """Views whose sources answer now."""
        if self._absent is not None and (names := self._absent.admitted()):
            self._survey = self._absent.survey
            units = self._units(names, self._again)
            engine.retention.outside = self._positions_outside()
            missing = {source for unit in units for source in unit.sources} - engine.channels.keys()
            engine.admit(units, {source: self._channel(source) for source in missing})

    def _channel(self, source: str) -> Channel:
        return Channel(self.sources[source].owned_by(self._owner), self.spark)

    def _pause(self, report: RoundReport, gather: bool) -> None:
        """``gather``: until changes may have gathered for a larger batch; not for who waits for the end, nor while
        somebody is at work or waited for: what becomes of him is looked after all the time.
        """
        if self._guests:
            time.sleep(0.01)  # locks are not fair
        gathering = self.run_keys.max_age if gather and report.settled else 0.0
        wait = max(gathering, 0.0 if report.busy else self.run_keys.poll)
        if wait:
            self._stopping.wait(max(wait - report.seconds, 0.0) if report.busy else wait)

    def _tell(self, on_round: OnRound | None, report: RoundReport) -> None:
        write_status(self.path, self.status)
        if on_round is not None:
            on_round(report)

    def start(self, on_round: OnRound | None = None) -> Self:
        """Runs in the background until ``stop``."""
        self._started(())
        self._thread = threading.Thread(target=self._run_quietly, args=(on_round,), name="weir-run", daemon=True)
        self._thread.start()
        return self

    def _run_quietly(self, on_round: OnRound | None) -> None:
        try:
            self.run(on_round=on_round)
        except BaseException as problem:
            self._thread_problem = problem

    def request_stop(self) -> None:
        """Lets ``run`` end after the round under way; for signal handlers."""
        self._stopping.set()

    def stop(self) -> None:
        """Ends the run: the round under way is finished and written, never half."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._engine is not None:
            engine, self._engine = self._engine, None
            with self._turn:
                engine.ended = True  # whoever waits for an audit makes no more rounds
            self._resources.callback(engine.close)  # the first to be closed
        self._resources.close()
        self._stopping.clear()
        problem, self._thread_problem = self._thread_problem, None
        if problem is not None:
            raise problem

    def close(self) -> None:
        """As ``stop``. The Spark application stays for the next warehouse of this process, and ends with it."""
        self.stop()

    # -- starting ------------------------------------------------------------------------------------------------------

    def _started(self, reload: Iterable[str]) -> Engine:
        again = set(reload)
        if self._engine is not None and not again:
            return self._engine
        if self._thread is not None:
            raise WeirError(
                f"view {next(iter(again))} cannot be loaded again while the warehouse runs; stop() it first"
            )
        if self._engine is not None:
            self.stop()
        self._survey = None  # tables may have changed since it was made
        for name in again:
            self.parsed_view(name)
        if not self.views:
            raise WeirError("there is no view to maintain; add one to views/*.sql, or call Warehouse.view")
        lock = RunnerLock(self.path)
        lock.take()
        self._resources.callback(lock.release)
        try:
            self._again = again
            self._engine = self._make_engine(again)
            self._care = Care(self.spark, self._engine.units, self.run_keys)
            self._serve()
        except OSError as problem:
            self._resources.close()
            raise cannot_be_written(self.path, problem) if problem.errno in REFUSALS else problem from None
        except BaseException:
            self._resources.close()
            raise
        return self._engine

    def _serve(self) -> None:
        """For other processes: requests on this machine, metrics where wanted."""
        if "://" not in self.path:
            handlers: dict[str, Callable[..., Any]] = {
                "verify": self._audits_for_another,
                "status": self.status,
                "stop": self._stopping.set,
            }
            self._resources.callback(ControlServer(self.path, handlers).close)
        if self.run_keys.metrics_port:
            self._resources.callback(MetricsServer(self.run_keys.metrics_port, self.status).close)

    def _make_engine(self, reload: set[str]) -> Engine:
        self._absent = Absent(self.survey, self.views)
        self._resources.callback(self._absent.close)
        self._refused = {}
        units = self._units([name for name in self.views if name not in self._absent.views], reload)
        if len(self._refused) == len(self.views):
            raise all_refused(self._refused)
        used = dict.fromkeys(source for unit in units for source in unit.sources)
        self._owner = take_identity(self.path, self._tables.storage)
        channels = {name: self._channel(name) for name in used}
        tasks = int(self._settings.get("spark.default.parallelism", 0)) or os.cpu_count() or 2
        host = self._settings.get("spark.driver.host") or driver_address(self.spark)
        keys = self.run_keys
        settings = Settings(keys.max_age, keys.poll, tasks, host=host, scratch=self._scratch())
        engine = Engine(self.spark, channels, units, settings)
        engine.retention.outside = self._positions_outside()
        return engine

    def _positions_outside(self) -> dict[str, Mapping[str, Position]]:
        """Where the views that are not run were at their last commit; one whose table cannot tell is to be loaded."""
        outside = {*(self._absent.views if self._absent is not None else ()), *self._refused} - self._again
        found: dict[str, Mapping[str, Position]] = {}
        for name in outside:
            with contextlib.suppress(StoreError):
                if (store := self._tables.open(name)) is not None and store.head.transaction:
                    found[name] = dict(store.positions())
        return found

    def _units(self, names: Iterable[str], reload: set[str]) -> list[Unit]:
        """What can be run of these views. The others are left out, and say why."""
        rules = Acceptance(self.survey, self._tables, self.run_keys.max_batch)
        accepted = rules.units((self.views[name] for name in names), reload)
        for name, problem in accepted.refused.items():
            log.error("view %s is not run: %s", name, problem)
        self._refused |= accepted.refused
        return accepted.units

    def _scratch(self) -> str:
        """Where whole tables are put for the time of a first load: beside local tables, else in a temporary folder.

        What a killed process has left there is gone then.
        """
        place = machine_place() if "://" in self.path else Path(self.path) / FOLDER / "scratch"
        folder = PrivateFolder(place)
        self._resources.callback(folder.close)
        return str(folder.path)

    # -- reading and care ----------------------------------------------------------------------------------------------

    def store(self, name: str) -> ViewStore:
        """The view's table."""
        found = self._tables.open_whole(name)
        if found is None or not found.head.transaction:
            raise WeirError(f"view {name} has not been loaded yet; run: weir run --until-caught-up")
        found.settle()
        return found

    def is_loaded(self, name: str) -> bool:
        found = self._tables.open(name)
        return found is not None and found.head.transaction > 0

    def read(self, name: str, as_of: AsOf = NOW) -> DataFrame:
        """The view's rows now, or at a version, an arrival or source positions."""
        return self.store(name).read(self.spark, as_of)

    def verify(self, name: str) -> Audit:
        """The online audit: the view against its definition over the sources at one vector, while these go on."""
        (found,) = self.verify_all([name])
        return found

    def verify_all(self, names: Iterable[str] = ()) -> list[Audit]:
        """The audit of several views (none named: all) in one round, at one vector; other views keep their pace.

        By whoever maintains the warehouse: another process, or this one. ``NotAudited``: some views cannot be; it tells
        why, and what was found in the others.
        """
        found, problems = self._audits(list(names) or list(self.views))
        if problems:
            raise NotAudited(problems, found)
        return found

    def _audits(self, names: list[str]) -> tuple[list[Audit], dict[str, str]]:
        for name in names:
            self.parsed_view(name)
        if self._engine is None:
            with contextlib.suppress(NoRunner):
                answer = ask_runner(self.path, "verify", names=names)
                return [Audit(**each) for each in answer["audits"]], answer["problems"]
            if (holder := RunnerLock(self.path).holder()) is not None:
                raise WeirError(does_not_answer(holder))
        engine = self._started(())
        absent = {} if self._absent is None else self._absent.problems
        problems = {name: str(why) for name, why in ({**self._refused, **absent}).items() if name in names}
        self._guests += 1
        try:
            found, more = audited(engine, [name for name in names if name not in problems], self._turn)
        finally:
            self._guests -= 1
        return found, {**problems, **more}

    def _audits_for_another(self, names: list[str]) -> dict[str, Any]:
        """What a process asks for that does not maintain the warehouse itself."""
        found, problems = self._audits(names)
        return {"audits": [vars(each) for each in found], "problems": problems}

    def compact(self, name: str) -> int | None:
        """Merges a view's small files and leaves behind what is gone; no visible row changes. The version made."""
        return self.store(name).compact()

    def publish(self, name: str, path: str | os.PathLike[str], as_of: AsOf = NOW) -> int:
        """Copies the view to a Delta table without deletion vectors, for tools that know none; its version there."""
        return self.store(name).publish(path, as_of)

    @property
    def engine(self) -> Engine | None:
        return self._engine

    def status(self) -> dict[str, Any]:
        """The facts of sources and views, as far as this process knows them."""
        known = status_of(self._engine, self.path, list(self.views), self._tables, self._started_at)
        if self._engine is None or self._absent is None:
            return known
        return with_outsiders(known, self._absent, self._refused, self._tables)


def _is_stuck(unit: Unit, engine: Engine) -> bool:
    """Whether somebody has to do something, or to wait; not who is taken up again in the next round, or a few times."""
    answering = all(engine.channels[name].problem is None for name in unit.sources)
    soon = answering and (unit.setbacks > 0 or time.monotonic() >= unit.retry_at)
    if unit.state == RUNNING and not unit.at_work and unit.holds_back:  # all there is has come
        return True
    return unit.state == FAILED or (unit.state == WAITING and not soon)


def _place(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text.rstrip("/") if "://" in text else os.path.abspath(text)


__all__ = ["RUNNING", "AsOf", "Audit", "Warehouse"]
