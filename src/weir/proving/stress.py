"""The exactness stress: concurrent writers, a source that visits without pause, and the oracle after every visit.

Nothing here knows a kind of database; a ``Workload`` brings it. Beside plain visits the run also loads afresh under
the writers, throws visits away as a crash before the commit would, resumes, and kills writers. A workload can be run
with a *planted mutation*: a naive way of capture that must come out as wrong answers, or the stress could not be
trusted.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from weir.algebra.catalog import Relation, Table
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.kinds import KINDS
from weir.proving.oracle import Ledger, Replay
from weir.proving.writers import StressWriter
from weir.sources.source import HeldSnapshot, LoadAgain, SchemaChanged, Source, SourceError, SourcePosition, Visit

COLUMNS = {
    "ledger": ("id", "growth"),
    "item": ("id", "tx", "amount", "note"),
    "part": ("item", "line", "tx", "payload"),
    "loose": ("a", "b", "tx"),
}
KEYS: dict[str, Sequence[tuple[str, ...]]] = {
    "ledger": [("id",)],
    "item": [("id",)],
    "part": [("item", "line"), ("item",)],
    "loose": [("a",), ("a", "b")],
}
LONGEST_ABSENCE = 300.0  # seconds a disturbed database may take to come back


@dataclass(frozen=True)
class StressReport:
    """The verdict: ``wrong`` counts wrong answers and wrong deliveries; ``failures`` holds the first of them."""

    kind: str
    answers: int
    wrong: int
    transactions: int
    seconds: float
    failures: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "answers": self.answers, "wrong": self.wrong,
            "transactions": self.transactions, "seconds": round(self.seconds, 1),
        }  # fmt: skip


class Workload(ABC):
    """One kind of source under stress: its database, its source, its writers. A context manager: leaving it stops
    what it started.

    ``schema`` makes the tables ``ledger`` (id bigint, growth int), ``item`` (id int, tx bigint, amount int, note
    text), ``part`` (item int, line int, tx bigint, payload text; key of both ints) and ``loose`` (a int, b text, tx
    bigint; no key).
    """

    kind: ClassVar[str]
    schema: ClassVar[Sequence[str]]
    writer_class: ClassVar[type[StressWriter]]
    mutations: ClassVar[tuple[str, ...]] = ()  # names of the naive ways that can be planted
    one_each: ClassVar[bool] = True  # a delivered transaction is exactly one of the writers' (never merged)
    merged_after_resume: ClassVar[bool] = False  # what was missed while away may come as one transaction
    exact_lookups: ClassVar[bool] = True  # an answer holds only rows with the keys asked for
    disturb_every: ClassVar[float | None] = None  # seconds between calls of ``disturb``

    def __init__(self, mutation: str | None = None) -> None:
        if mutation is not None and mutation not in self.mutations:
            raise WeirError(f"{self.kind} has no mutation '{mutation}'; it has {', '.join(self.mutations) or 'none'}")
        self.mutation = mutation

    @property
    def settings(self) -> Mapping[str, str]:
        """Of the server, where it needs others than usual."""
        return {}

    def start(self) -> None:
        """Starts a private database with the empty tables, captured."""
        from weir.proving.databases import Servers  # with all drivers, which most commands do without

        self.servers = Servers(settings={KINDS[self.kind]: self.settings})
        self.database = self.servers.open(self.kind, "stress", self.schema, tables=list(COLUMNS))

    def stop(self) -> None:
        """Ends what ``start`` began, by pid, and removes its files. Called also when ``start`` failed half-way."""
        self.servers.close()

    @abstractmethod
    def open(self) -> Source:
        """A new connection to the source, not yet watching; with the planted mutation if there is one."""

    def writer(self, number: int, seed: int) -> StressWriter:
        return self.writer_class(number, seed, self.database.login)

    def forget(self) -> None:
        """Before a fresh load, which then makes it anew under the writers, the hardest case. No source is open."""
        self.database.forget()

    def writers_gone(self) -> None:
        """After the last writer has ended, perhaps killed: ends what they left half done, where that can be."""

    def disturb(self) -> None:
        """Hurts the database (kill -9 and restart, dropped connections).

        The run resumes from the last committed position.
        """

    def __enter__(self) -> Workload:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()


def find_workload(kind: str, mutation: str | None = None) -> Workload:
    """The registered workload of a kind, imported only now: each needs its own driver."""
    if kind not in KINDS:
        raise WeirError(f"unknown kind '{kind}' to stress: use one of {', '.join(KINDS)}")
    known: Sequence[type[Workload]] = import_module(f"weir.proving.workloads.{KINDS[kind]}").WORKLOADS
    return next(workload for workload in known if workload.kind == kind)(mutation)


def run_stress(
    workload: Workload, seconds: float, seed: int = 0, writers: int = 3, loads: int = 3, until_wrong: bool = False
) -> StressReport:
    """Starts the workload, stresses it for so long once its writers write, stops it, and tells the verdict.

    With ``until_wrong`` it ends with the first failure, for planted mutations.
    """
    with workload:
        run = _Run(workload, seed)
        try:
            with _Crew(workload, seed, writers) as crew:
                began = time.monotonic()
                run.visit_until(began + seconds, crew, loads, until_wrong)
            workload.writers_gone()
            run.end()
        finally:
            run.close()
        return run.report(time.monotonic() - began)


@dataclass
class _Run:
    """One run: the source, what the warehouse would have committed, and the counts."""

    workload: Workload
    seed: int
    answers: int = 0
    wrong: int = 0
    transactions: int = 0
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.tables: Mapping[Relation, Table] = {}
        self.source: Source | None = None
        self.position: SourcePosition = ""
        self.resumed = False
        self.replay: Replay
        self.kept: tuple[HeldSnapshot, Replay] | None = None  # an older snapshot, and what it must show

    # -- opening, loading, crashing ---------------------------------------------------------------------------------

    def _open(self) -> Source:
        """A source that watches; None afterwards means that opening failed."""
        self.close()
        source = self.source = self.workload.open()
        if not self.tables:
            described = source.describe().tables
            self.tables = {table.relation: table for table in described if table.relation.table in COLUMNS}
        source.watch({relation: COLUMNS[relation.table] for relation in self.tables})
        return source

    def close(self) -> None:
        self._let_go()
        if self.source is not None:
            with contextlib.suppress(SourceError):
                self.source.close()
            self.source = None

    def load(self) -> None:
        """A first load while the writers write; the replay begins anew."""
        if self.source is not None:
            self._check_everything()
        self.close()
        self.workload.forget()
        source = self._open()
        ledger = Ledger(Relation(source.name, "ledger"), self.workload.one_each)
        self.replay = Replay({relation: COLUMNS[relation.table] for relation in self.tables}, ledger)
        self.position = self.replay.load(source)

    def resume(self) -> None:
        """A new connection that goes on from the last committed position, as after a crash."""
        self._open().resume(self.position)
        self.resumed = True

    def _resume_when_back(self) -> None:
        """After a disturbance: tries until the database is there again. A log that is lost is never passed over."""
        until = time.monotonic() + LONGEST_ABSENCE
        while True:
            try:
                return self.resume()
            except (LoadAgain, SchemaChanged):
                raise
            except SourceError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    # -- visiting ---------------------------------------------------------------------------------------------------

    def visit_until(self, end: float, crew: _Crew, loads: int, until_wrong: bool) -> None:
        began = time.monotonic()
        times = _Times(self.workload, began, end, loads)
        self.load()
        while (now := time.monotonic()) < end and not (until_wrong and self.wrong):
            if times.due("load", now):
                self.load()
            if times.due("kill", now):
                crew.kill_one()
            if times.due("disturb", now):
                self.workload.disturb()
                self._resume_when_back()
            try:
                self.step()
            except SourceError:
                if self.workload.mutation is None:
                    raise
                self._begin_anew()

    def _begin_anew(self) -> None:
        """After an error that only a naive way meets (without locks, TRUNCATE and a lookup can deadlock).

        That it fails is no wrong answer: what it must show is that it answers wrongly.
        """
        self.close()
        self.load()

    def step(self) -> None:
        """One visit, committed; now and then one that is lost before its commit."""
        if self.dice.random() < 0.01:
            assert self.source is not None
            lost = self.source.visit(hold=self.dice.random() < 0.5)
            self.resume()
            if lost.held is not None:
                lost.held.release()
        self.check(self._some_questions())

    def check(self, questions: Sequence[Sequence[Lookup]]) -> None:
        """Visits, follows the transactions, looks things up in the held snapshot, compares the answers, commits."""
        assert self.source is not None
        visit = self._visited(bool(questions))
        if self.replay.ledger is not None:
            may_merge = self.resumed and self.workload.merged_after_resume
            self.replay.ledger.one_each = self.workload.one_each and not may_merge
        self.resumed = False
        before = len(self.replay.ledger.delivered) if self.replay.ledger else 0
        problems = self.replay.apply(visit)
        if visit.held is not None:
            problems += self._compared(visit.held, self.replay, questions)
            problems += self._keep_or_release(visit.held)
        self.transactions += len(self.replay.ledger.delivered) - before if self.replay.ledger else 0
        self.wrong += len(problems)
        self.failures += problems[: 10 - len(self.failures)]
        self.position = visit.position
        if self.dice.random() < 0.2:
            self.source.acknowledge(self.position)

    def _compared(self, held: HeldSnapshot, replay: Replay, questions: Sequence[Sequence[Lookup]]) -> list[str]:
        problems = []
        for lookups in questions:
            problems += replay.compare(held.look(lookups), lookups, self.workload.exact_lookups)
            self.answers += len(lookups)
        return problems

    def _visited(self, hold: bool) -> Visit:
        """A TRUNCATE waits for the kept snapshot, and visits wait behind it: then it is let go."""
        assert self.source is not None
        try:
            return self.source.visit(hold)
        except SourceError:
            if self.kept is None:
                raise
        self._let_go()
        return self.source.visit(hold)

    def _let_go(self) -> None:
        if self.kept is not None:
            (older, _), self.kept = self.kept, None
            with contextlib.suppress(SourceError):
                older.release()

    def _keep_or_release(self, held: HeldSnapshot) -> list[str]:
        """Now and then a snapshot is held while visits go on; it must show then what it showed at first."""
        if self.kept is None and self.dice.random() < 0.05:
            self.kept = held, self.replay.as_it_is()
            return []
        held.release()
        if self.kept is None or self.dice.random() < 0.7:
            return []
        (older, replay), self.kept = self.kept, None
        try:
            return self._compared(older, replay, self._some_questions())
        finally:
            older.release()

    def _check_everything(self) -> None:
        self.check([[Lookup(relation, COLUMNS[relation.table]) for relation in self.tables]])

    def end(self) -> None:
        """The writers have stopped: one last visit, and every table equals its replay."""
        self._check_everything()

    def report(self, seconds: float) -> StressReport:
        return StressReport(
            self.workload.kind, self.answers, self.wrong, self.transactions, seconds, tuple(self.failures)
        )

    # -- questions --------------------------------------------------------------------------------------------------

    def _some_questions(self) -> list[list[Lookup]]:
        """For one visit: none, asked at once, or again and again while the writers go on."""
        return [self._lookups() for _ in range(self.dice.choice((0, 1, 1, 1, 1, 2, 3)))]

    def _lookups(self) -> list[Lookup]:
        """One or several: whole tables, and one to two hundred keys of one or two columns."""
        return [self._lookup() for _ in range(self.dice.choice((1, 1, 1, 2, 3)))]

    def _lookup(self) -> Lookup:
        relation = self.dice.choice(sorted(self.tables))
        whole = relation.table != "ledger" and self.dice.random() < 0.3  # the ledger only grows: asked for by key
        if whole:
            return Lookup(relation, self._some_columns(relation, ()))
        keys = self.dice.choice(KEYS[relation.table])
        schema = self.tables[relation].schema.only(keys)
        rows = set(self._keys(relation, keys, self.dice.choice((1, 1, 2, 10, 50, 200))))
        return Lookup(relation, self._some_columns(relation, keys), keys, MemoryBag.of(schema, sorted(rows)))

    def _some_columns(self, relation: Relation, keys: tuple[str, ...]) -> tuple[str, ...]:
        """All columns, or half of them; the keys among them, so that an answer with more rows can be judged."""
        names = COLUMNS[relation.table]
        if self.dice.random() < 0.7:
            return names
        return tuple(name for name in names if name in keys or self.dice.random() < 0.5) or names[:1]

    def _keys(self, relation: Relation, keys: tuple[str, ...], many: int) -> Iterator[tuple[Any, ...]]:
        """Keys of rows that are there, and a few that are not. No NULL: it is never asked for."""
        positions = [COLUMNS[relation.table].index(name) for name in keys]
        rows = self.replay.rows(relation)
        for row in self.dice.sample(rows, min(many, len(rows))):
            key = tuple(row[at] for at in positions)
            if None not in key:
                yield key
        yield tuple("q" if name == "b" else self.dice.randrange(400) for name in keys)


class _Times:
    """What is due when:

    loads spread over the run, writers killed every few seconds, disturbances as the workload says.
    """

    def __init__(self, workload: Workload, began: float, end: float, loads: int) -> None:
        self.every = {"load": (end - began) / max(loads, 1), "kill": 5.0}
        if workload.disturb_every is not None:
            self.every["disturb"] = workload.disturb_every
        self.next = {name: began + every for name, every in self.every.items()}

    def due(self, name: str, now: float) -> bool:
        if name not in self.every or now < self.next[name]:
            return False
        self.next[name] = now + self.every[name]
        return True


@dataclass(frozen=True)
class Flag:
    """A flag between processes without a lock: a writer killed while it looks must not keep the others from looking."""

    value: Any

    def set(self) -> None:
        self.value.value = 1

    def is_set(self) -> bool:
        return bool(self.value.value)


class _Crew:
    """The writing processes. Each has a number of its own for ever, so that ledger ids stay unique."""

    def __init__(self, workload: Workload, seed: int, size: int) -> None:
        self.workload, self.seed, self.size, self.number = workload, seed, size, 0
        self.context = multiprocessing.get_context("spawn")
        self.stop = Flag(self.context.Value("b", 0, lock=False))
        self.processes: list[Any] = []

    def _hire(self) -> Any:
        """A new writer; returns its count of commits."""
        self.number += 1
        writer, commits = self.workload.writer(self.number, self.seed), self.context.Value("q", 0, lock=False)
        process = self.context.Process(target=writer.run, args=(self.stop, commits), daemon=True)
        process.start()
        self.processes.append(process)
        return commits

    def kill_one(self) -> None:
        """kill -9 in the middle of whatever it does, and another in its place."""
        process = self.processes.pop(0)
        process.kill()
        process.join()
        self._hire()

    def __enter__(self) -> _Crew:
        try:
            self._wait([self._hire() for _ in range(self.size)])
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self, counts: list[Any]) -> None:
        """Until every writer has committed something: on a busy machine processes take their time to start."""
        until = time.monotonic() + LONGEST_ABSENCE
        while not all(count.value for count in counts):
            if time.monotonic() > until or not all(process.is_alive() for process in self.processes):
                raise WeirError(f"{self.workload.kind}: the writers do not write; run one by hand to see why")
            time.sleep(0.05)

    def __exit__(self, *problem: object) -> None:
        self.stop.set()
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
