"""Views as they are maintained: each with its table, its auxiliary tables, and its algorithm while it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TypeVar

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.algebra.query import Query, whole
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.algorithms.driver import Driver
from weir.messages import Update
from weir.planning.choice import Choice
from weir.rounds.conversation import Conversation
from weir.rounds.delivery import Delivered, merged
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.spark_expressions import schema_of_view
from weir.warehouse.bags import bag_of
from weir.warehouse.columns import check_names, escaped, unescaped
from weir.warehouse.damage import DATA, OLDER, last_known_arrival
from weir.warehouse.errors import BadColumns, Damaged, StoreError
from weir.warehouse.place import LOG, Place
from weir.warehouse.record import Record
from weir.warehouse.store import ViewStore

E = TypeVar("E", bound=StoreError)
AUXILIARY = "_auxiliary"
AUXILIARY_NOTE, GAPS_NOTE = "auxiliary", "gaps"


class DefinitionChanged(WeirError):
    """A view's table holds another view than the one that is defined now."""


@dataclass(frozen=True)
class Gap:
    """States that a view which keeps every one could not keep: those between two arrivals."""

    after: int
    at: int
    why: str

    def __str__(self) -> str:
        return f"no states between arrival {self.after} and arrival {self.at} ({self.why})"


@dataclass(frozen=True)
class ViewTables:
    """Where the tables lie."""

    path: str
    storage: Mapping[str, str]

    def open(self, *names: str) -> ViewStore | None:
        """The table, if there is one. What is wrong with it is said with the view's name and the way out."""
        place = self.place(*names)
        with _telling(names):
            return ViewStore.open(place, self._options) if ViewStore.exists(place, self._options) else None

    def open_whole(self, *names: str) -> ViewStore | None:
        """The same, of which every file with rows is known to be there."""
        found = self.open(*names)
        if found is not None:
            with _telling(names):
                found.check()
        return found

    def create(self, schema: Schema, *names: str, after: int = 0) -> ViewStore:
        return ViewStore.create(self.place(*names), schema, "/".join(names), self._options, after=after)

    def made_anew(self, schema: Schema, *names: str) -> ViewStore:
        """A new, empty table in place of one with other columns, or of one that is damaged, whose arrival numbers it
        goes on with. The log goes first, the newest version before all: whatever comes in between, what is left is an
        older state, or no table.
        """
        place = Place.of(self.place(*names), self._options)
        after, files = last_known_arrival(place), place.listing()
        log = [name for name in files if name.startswith(f"{LOG}/")]
        commits = sorted((name for name in log if name.endswith(".json")), reverse=True)
        place.discard([*(name for name in log if not name.endswith(".json")), *commits])
        place.discard(name for name in files if name.startswith(DATA + OLDER))
        return self.create(schema, *names, after=after)

    def gone(self, *names: str) -> Damaged:
        """The error for a table that was there."""
        return _told(names, Damaged(f"the table at '{self.place(*names)}' is gone"))

    def place(self, *names: str) -> str:
        """A table's folder."""
        return "/".join([self.path, *names])

    @property
    def _options(self) -> Mapping[str, str] | None:
        return self.storage or None


@contextmanager
def _telling(names: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except StoreError as problem:
        raise _told(names, problem) from problem


def _told(names: Sequence[str], problem: E) -> E:
    """A table's trouble as its view's."""
    view = names[1] if names[0] == AUXILIARY else names[0]
    kept = "an auxiliary table of it: " if names[0] == AUXILIARY else ""
    way_out = f". Restore it from a backup, or load the view again from its sources: weir run --reload {view}"
    return type(problem)(f"view {view}: {kept}{problem}{way_out if isinstance(problem, Damaged) else ''}")


def check_view_names(view: View) -> None:
    """Refuses columns that the view's table could not have, before anything is loaded."""
    try:
        check_names(view.columns)
    except BadColumns as problem:
        raise BadColumns(f"view {view.name}: {problem}") from None


class MaintainedView:
    """One view, its table, and its algorithm while it runs."""

    def __init__(self, view: View, choice: Choice, tables: ViewTables, anew: bool = False) -> None:
        check_view_names(view)
        self.view, self.choice, self.tables = view, choice, tables
        self.name = view.name
        self.anew = anew  # it shall be loaded again, whatever its tables are
        self.store: ViewStore | None = None
        self.problem: StoreError | None = None  # why its table cannot be opened
        self.auxiliary: dict[str, ViewStore] = {}
        self.conversation: Conversation | None = None
        self._look()
        self.gaps: list[Gap] = gaps_of(self.store)
        if self.store is not None and not anew:
            self._check_definition(self.store)

    def _look(self) -> None:
        """Opens its table. One that cannot be opened is no reason to stop others: it is told to whoever needs it."""
        try:
            self.store, self.problem = self.tables.open(self.name), None
        except StoreError as problem:
            self.store, self.problem = None, problem

    @property
    def complete(self) -> bool:
        """Whether every transaction's state shall be kept."""
        return self.choice.asked == "complete"

    @property
    def level(self) -> str:
        """What its readers see: where states between are not asked for, only a round's last one is kept."""
        return "strong" if self.choice.level == "complete" and not self.complete else self.choice.level

    @property
    def is_exact(self) -> bool:
        """Whether no row is ever taken that is not there: every state that is written is one of the view."""
        return self.choice.level in ("strong", "complete")

    # -- the table -----------------------------------------------------------------------------------------------------

    @cached_property
    def definition(self) -> str:
        """What tells this view from another of the same name: its normal form."""
        parts = [(term.slots, term.equalities, term.selections, term.rest, term.output) for term in self.view.terms]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @cached_property
    def wording(self) -> str:
        """The words that only Spark reads: there even the spelling of a column can show, in ``struct(ID)``."""
        words = [each.written.words for each in self.view.spark_only if each.written is not None]
        return hashlib.sha256(repr(words).encode()).hexdigest()[:16]

    def _check_definition(self, store: ViewStore) -> None:
        notes = store.head.notes
        known = notes.get("definition", self.definition), notes.get("wording", self.wording)
        if store.head.transaction and known != (self.definition, self.wording):
            raise DefinitionChanged(
                f"the table of view {self.name} at {store.place.uri} was made from another definition; load it again "
                f"from the sources: weir run --reload {self.name} (or give the new view another name)"
            )

    def check_auxiliary(self, store: ViewStore) -> None:
        """Refuses a table that was kept without what the strategy needs beside it."""
        kept = json.loads(store.head.notes.get(AUXILIARY_NOTE, "{}"))
        if store.head.transaction and not kept and self.queries().keys() - {""}:
            raise DefinitionChanged(
                f"view {self.name} was kept without the auxiliary views that strategy {self.choice.strategy} needs; "
                f"load it again from the sources: weir run --reload {self.name}"
            )

    @property
    def loaded(self) -> bool:
        """Whether its table holds rows that belong to known positions."""
        if self.problem is not None and not self.anew:
            raise self.problem
        return self.store is not None and self.store.head.transaction > 0

    @property
    def begun(self) -> bool:
        """Whether arrival numbers have been given: by this table, or by one that it took the place of."""
        return self.loaded or self.received > 0

    def settle(self) -> None:
        """Finishes what a commit of its table has decided and a crash has left open."""
        assert self.store is not None, f"view {self.name} is not loaded"
        self.store.settle()

    @property
    def notes(self) -> dict[str, str]:
        """Kept with every commit."""
        folders = {name: store.place.uri.rsplit("/", 1)[-1] for name, store in self.auxiliary.items()}
        notes = {"definition": self.definition, "wording": self.wording}
        notes |= {"strategy": self.choice.strategy, "level": self.level}
        seldom = {AUXILIARY_NOTE: folders, GAPS_NOTE: [astuple(gap) for gap in self.gaps]}
        return {**notes, **{name: json.dumps(value) for name, value in seldom.items() if value}}

    def queries(self) -> dict[str, Query]:
        """What a first load evaluates: the view under the empty name, auxiliary views under theirs."""
        wanted = self.choice.algorithm.auxiliary_for(self.view, **self.choice.options)
        return {"": whole(self.view), **wanted}

    def table_for(self, name: str, schema: Schema, spark: SparkSession) -> ViewStore:
        """The view's own table (the empty name) or an auxiliary one, made where missing."""
        if not name:
            self.store, self.problem = self._fitting(schema_of_view(self.view, spark), self.name), None
            return self.store
        if name not in self.auxiliary:
            folder = hashlib.sha256(name.encode()).hexdigest()[:16]
            self.auxiliary[name] = self._fitting(escaped(schema), AUXILIARY, self.name, folder)
        return self.auxiliary[name]

    def _fitting(self, schema: Schema, *names: str) -> ViewStore:
        """The table that is there, if it can be opened and its columns are these; else a new one. Who loads it anew
        may have found something wrong with it: then its files must all be there, too.
        """
        try:
            found = self.tables.open_whole(*names) if self.anew else self.tables.open(*names)
        except Damaged:
            if self.loaded and not self.anew:
                raise
            return self.tables.made_anew(schema, *names)
        if found is None:
            return self.tables.create(schema, *names)
        orphaned = names[0] == AUXILIARY and not self.loaded  # it went with a table that is no more
        return self.tables.made_anew(schema, *names) if orphaned or found.schema != schema else found

    # -- the algorithm -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A fresh algorithm at the table's state."""
        self.anew = False
        assert self.loaded, f"view {self.name} is not loaded"
        self.settle()
        self.store = self.tables.open_whole(self.name)
        assert self.store is not None
        head = self.store.head
        self.gaps = gaps_of(self.store)
        folders = json.loads(head.notes.get(AUXILIARY_NOTE, "{}"))
        self.auxiliary = {name: self._auxiliary_table(folder, head) for name, folder in folders.items()}
        self.check_auxiliary(self.store)
        content = {name: _content(self.auxiliary[name]) for name in folders} or None
        algorithm = self.choice.algorithm(self.view, content, **self.choice.options)
        algorithm.delegated = frozenset(algorithm.facts.delegates)
        self.conversation = Conversation(Driver(algorithm, head.last_arrival), self.complete)

    def _auxiliary_table(self, folder: str, head: Record) -> ViewStore:
        """One that the view's newest commit names."""
        found = self.tables.open_whole(AUXILIARY, self.name, folder)
        if found is None:
            raise self.tables.gone(AUXILIARY, self.name, folder)
        if found.head.transaction > head.transaction:
            behind = f"its newest commit, version {head.version}, is older than that of its auxiliary tables"
            raise _told([self.name], Damaged(f"the table at '{self.tables.place(self.name)}' is damaged: {behind}"))
        return found

    def stop(self) -> None:
        """Forgets all that is in memory."""
        was_there = self.store is not None or self.problem is not None
        self.conversation = None
        self.auxiliary = {}
        self._look()
        if was_there and self.store is None and self.problem is None:
            self.problem = self.tables.gone(self.name)

    def deliver(self, blocks: Sequence[Sequence[Delivered]]) -> None:
        """A round's updates, all at once: the snapshots that answer have seen all of them."""
        assert self.conversation is not None
        updates = [update for block in blocks for update in self._given(block)]
        if updates:
            self.conversation.deliver(updates)

    def _given(self, block: Sequence[Delivered]) -> Sequence[Update]:
        """A block's updates as the algorithm gets them."""
        return [merged(block)] if block and self.choice.merge and not self.complete else block

    @property
    def last_arrival(self) -> int:
        """The arrival number up to which the view is written, or is being written."""
        conversation = self.conversation  # its unit may be at work
        if conversation is not None:
            return conversation.written
        return self.store.head.last_arrival if self.store is not None else 0

    @property
    def received(self) -> int:
        """The last arrival number given."""
        conversation = self.conversation
        return self.last_arrival if conversation is None else conversation.driver.arrivals


def gaps_of(store: ViewStore | None) -> list[Gap]:
    """What a table says of states that were not kept."""
    notes = {} if store is None else store.head.notes
    return [Gap(*gap) for gap in json.loads(notes.get(GAPS_NOTE, "[]"))]


def _content(store: ViewStore) -> ArrowBag:
    """An auxiliary view, read back."""
    return bag_of(store.read_arrow(counted=True), unescaped(store.schema))
