"""One case on the real product: load, change, catch up, round after round, and every state compared with the oracle.

What is compared: each view's rows after every round; of a ``complete`` view the state after every arrival, of a
``strong`` or ``weak`` one every version of its table, in an order that the sources went through; and the names and
types of its columns.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.operation.warehouse import AsOf, Warehouse
from weir.planning.choice import ViewFacts, choose
from weir.proving.fuzz.case import FuzzCase, FuzzRound, FuzzView
from weir.proving.fuzz.expected import ExpectedStates, SeenRows, TableHistory, Unanswerable, bag_of_arrow, misplaced
from weir.proving.fuzz.places import FuzzPlaces, Refusals
from weir.rounds.engine import RoundReport
from weir.rounds.units import FAILED, WAITING
from weir.spark.session import inside

WRONG, STOPPED = "wrong", "stopped"
PATIENCE = 300.0  # seconds in which a handful of rows must be caught up with, on a busy machine too
RESTART, COMPACT, VERIFY = "restart", "compact", "verify"
ACTS = (RESTART, COMPACT, VERIFY)  # while a restart is under way, the round's transactions happen
SETTINGS = {  # a handful of rows, and queries that are never seen again: what Spark does to be fast costs most
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2",
    "spark.sql.lightweightPlanChangeValidation": "false",
}  # fmt: skip
_warehouses = count(1)


class FuzzFinding(NamedTuple):
    """Something that must not be: ``what`` is WRONG or STOPPED."""

    what: str
    view: str
    round: int
    told: str

    def __str__(self) -> str:
        return f"{self.view or 'all views'} {self.what} in round {self.round}: {self.told}"


@dataclass
class TrialVerdict:
    """What became of a case. ``case`` holds the views that were kept, each with the strategy that kept it."""

    case: FuzzCase
    transactions: int = 0
    comparisons: int = 0
    findings: list[FuzzFinding] = field(default_factory=list)
    refused: list[tuple[FuzzView, str]] = field(default_factory=list)


class ShownRound(NamedTuple):
    """What a view showed since the round before: its states in order, the last one being what readers see now."""

    states: Sequence[SeenRows]
    complete: bool
    ordered: bool  # whether states between the rounds are promised to be right


def run_trial(case: FuzzCase, places: FuzzPlaces, spark: SparkSession) -> TrialVerdict:
    """Runs a case on these places; whatever happens, they are ready for the next one."""
    trial = _Trial(case, places, spark)
    try:
        trial.begin()
        trial.run()
        trial.judge()
    except Refusals as problem:  # tables that the database does not take: no case at all
        trial.verdict.refused += [(view, f"the database: {problem}") for view in case.views]
    finally:
        trial.end()
    return trial.verdict


class _Trial:
    """A case on its way."""

    def __init__(self, case: FuzzCase, places: FuzzPlaces, spark: SparkSession) -> None:
        self.case, self.verdict = case, TrialVerdict(case)
        self.spark = inside(spark, SETTINGS)
        self.folder = places.folder / f"warehouse_{next(_warehouses)}"
        self.places = places.of(case)
        self.shown: dict[str, list[ShownRound]] = {}
        self.columns: dict[str, list[tuple[str, str]]] = {}
        self.versions: dict[str, tuple[int, int]] = {}  # per view: the version and arrival already seen
        self.stopped: set[str] = set()

    # -- making it ready -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for source, place in self.places.items():
            place.begin(list(self.case.tables_of(source)))
        self.history = TableHistory({source: self._read(source) for source in self.places})
        self.warehouse = self._open()
        for view in self.case.views:
            self._add(view)
        kept = tuple(view for view in map(self._settled, self.case.views) if view is not None)
        self.case = self.verdict.case = replace(self.case, views=kept)

    def _open(self) -> Warehouse:
        warehouse = Warehouse(self.folder, settings=SETTINGS)  # beside the session that runs
        for source, place in self.places.items():
            warehouse.source(source, place.kind, **place.options)
        return warehouse

    def _read(self, source: str) -> Mapping[tuple[str, str], object]:
        return {table.place: self.places[source].read(table) for table in self.case.tables_of(source)}

    def _add(self, view: FuzzView) -> None:
        with suppress(WeirError):  # told when it is settled
            self.warehouse.view(view.text)

    def _settled(self, view: FuzzView) -> FuzzView | None:
        """The view as it will be kept: with the strategy that it wishes, else with Weir's choice; None if refused."""
        automatic = {name: value for name, value in view.options.items() if name in ("consistency", "group")}
        for candidate in (view, replace(view, options=automatic)):
            try:
                self.warehouse.view(candidate.text)
                parsed = self.warehouse.parsed_view(view.name)
                choose(parsed, ViewFacts.of(self.warehouse.survey, parsed))
                return candidate
            except WeirError as problem:
                said = str(problem)
            except Exception as problem:  # a refusal has words
                self._found(STOPPED, view.name, 0, f"when it is planned: {type(problem).__name__}: {problem}")
                break
        else:
            self.verdict.refused.append((view, said))
        self.warehouse.views.pop(view.name, None)
        return None

    # -- running it ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        if not self.case.views:
            return
        self._catch_up(0)
        for number, round_ in enumerate(self.case.rounds, 1):
            if len(self.stopped) == len(self.case.views):
                return
            self._act(round_, number)
            self._catch_up(number)

    def _act(self, round_: FuzzRound, number: int) -> None:
        if round_.act == RESTART:
            self.warehouse.close()
        self._change(round_)
        if round_.act == RESTART:
            self.warehouse = self._open()
            for view in self.case.views:
                self.warehouse.view(view.text)
        if round_.act == COMPACT:
            for view in self._living():
                self.warehouse.compact(view.name)

    def _change(self, round_: FuzzRound) -> None:
        for transaction in round_.transactions:
            if not self.places[transaction.source].transact(transaction.statements):
                self.verdict.transactions += 1
                self.history.happened(transaction.source, self._read(transaction.source))
        self.history.end_round()

    def _catch_up(self, number: int) -> None:
        self._note_stopped(number, self._run())
        round_ = self.case.rounds[number - 1] if number else FuzzRound(())
        for view in self._living():
            self._look(view, number, keeps_every_state(round_))
        if round_.act == VERIFY and not self.stopped:
            self._verify(number)

    def _run(self) -> str | None:
        """What went wrong, in words."""
        end = time.monotonic() + PATIENCE

        def on_round(_: RoundReport) -> None:
            if time.monotonic() > end:
                raise TimeoutError(f"it has not caught up after {PATIENCE:.0f} seconds")

        try:
            self.warehouse.run(until_caught_up=True, on_round=on_round)
        except WeirError as problem:
            return str(problem)
        except Exception as problem:  # whatever it is: the product must not raise it
            return f"{type(problem).__name__}: {problem}"
        return None

    def _note_stopped(self, number: int, problem: str | None) -> None:
        """Views that do not run any more, by their units; all of them if none of those says why."""
        engine = self.warehouse.engine
        units = [unit for unit in engine.units if unit.state in (FAILED, WAITING)] if engine else []
        told = {view.name: unit.problem for unit in units for view in unit.views}
        if problem is not None and not told:
            told = {view.name: problem for view in self.case.views}
        for name, why in told.items():
            if name not in self.stopped:
                self.stopped.add(name)
                self._found(STOPPED, name, number, why)

    def _found(self, what: str, view: str, number: int, told: str) -> None:
        self.verdict.findings.append(FuzzFinding(what, view, number, told))

    def _living(self) -> Iterator[FuzzView]:
        return (view for view in self.case.views if view.name not in self.stopped)

    def _look(self, view: FuzzView, number: int, every_state: bool) -> None:
        """Reads what the view shows; the last time as its readers do, by Spark."""
        try:
            shown = self._shown(view, every_state)
            if number == len(self.case.rounds):
                frame = self.warehouse.read(view.name)
                self.columns[view.name] = list(frame.dtypes)
                if view is self.case.views[self.case.seed % len(self.case.views)]:  # all of them would cost too much
                    shown = shown._replace(states=[*shown.states, bag_of_arrow(frame.toArrow())])
            self.shown.setdefault(view.name, []).append(shown)
        except Exception as problem:  # a state that cannot be read is a wrong one
            self.stopped.add(view.name)
            self._found(WRONG, view.name, number, f"{type(problem).__name__}: {problem}")

    def _shown(self, view: FuzzView, every_state: bool) -> ShownRound:
        store = self.warehouse.store(view.name)
        head = store.log.head()
        version, arrival = self.versions.get(view.name, (head.version - 1, head.last_arrival))
        self.versions[view.name] = head.version, head.last_arrival
        level = view.options.get("consistency", "strong")
        complete = level == "complete" and every_state
        if complete:
            wanted = [AsOf(arrival=each) for each in range(arrival + 1, head.last_arrival + 1)]
        else:
            wanted = [AsOf(version=each) for each in range(version + 1, head.version + 1)]
        ordered = level in ("weak", "strong", "complete")
        states = [bag_of_arrow(store.read_arrow(as_of)) for as_of in wanted] if ordered else []
        return ShownRound([*states, bag_of_arrow(store.read_arrow())], complete, ordered)

    def _verify(self, number: int) -> None:
        try:
            audits = self.warehouse.verify_all()
        except Exception as problem:
            self._found(STOPPED, "", number, f"verify: {type(problem).__name__}: {problem}")
            return
        for audit in audits:
            self.verdict.comparisons += 1
            if not audit.clean:
                self._found(WRONG, audit.view, number, f"verify says {audit}")

    # -- judging it ----------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        for view in self.case.views:
            try:
                expected = ExpectedStates(self.spark, view, self.history)
            except Unanswerable as problem:
                self._excuse(view, str(problem))
                continue
            self.verdict.findings += self._differences(view, expected)

    def _excuse(self, view: FuzzView, why: str) -> None:
        """A view that Spark refuses may stop; it is as if it had been refused."""
        self.verdict.refused.append((view, f"Spark: {why}"))
        self.verdict.findings = [each for each in self.verdict.findings if each.view != view.name]

    def _differences(self, view: FuzzView, expected: ExpectedStates) -> Iterator[FuzzFinding]:
        """The first of them: what follows is its consequence."""
        if view.name in self.columns:
            self.verdict.comparisons += 1
            if self.columns[view.name] != expected.columns:
                told = f"its columns are {self.columns[view.name]}, not {expected.columns}"
                yield FuzzFinding(WRONG, view.name, len(self.case.rounds), told)
        before: SeenRows | None = None
        for number, shown in enumerate(self.shown.get(view.name, ())):
            self.verdict.comparisons += len(shown.states)
            if told := self._round_difference(shown, number, before, expected):
                yield FuzzFinding(WRONG, view.name, number, told)
                return
            before = shown.states[-1]

    def _round_difference(
        self, shown: ShownRound, number: int, before: SeenRows | None, expected: ExpectedStates
    ) -> str:
        end = self.history.end(expected.sources, number)
        if shown.states[-1] != expected.at(end):
            return "after the round " + difference(expected.at(end), shown.states[-1])
        if not shown.ordered:
            return ""
        start = self.history.end(expected.sources, max(number - 1, 0))
        states = shown.states if before is None else [before, *shown.states]
        at = misplaced(states, start, end, expected.at, shown.complete)
        if at is None:
            return ""
        return f"inside the round state {at} of {len(states)} is out of place: {_some(states[at])}"

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        closing: list[Callable[[], None]] = [place.end for place in self.places.values()]
        if hasattr(self, "warehouse"):
            closing.insert(0, self.warehouse.close)
        for close in closing:
            with suppress(Exception):
                close()
        shutil.rmtree(self.folder, ignore_errors=True)


def keeps_every_state(round_: FuzzRound) -> bool:
    """Whether a complete view can: what happened during a pause may come as one, and so does all around a TRUNCATE."""
    statements = [statement for transaction in round_.transactions for statement in transaction.statements]
    return round_.act != RESTART and not any(statement.startswith("TRUNCATE") for statement in statements)


def difference(expected: SeenRows, shown: SeenRows) -> str:
    missing, extra = expected - shown, shown - expected
    return f"missing {_some(missing)}, not expected {_some(extra)}"


def _some(rows: SeenRows) -> str:
    first = ", ".join(map(repr, list(rows)[:2]))
    return f"{rows.total()} rows" + (f" ({first})" if first else "")
