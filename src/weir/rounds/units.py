"""Views as they are maintained: each with its table and its algorithm, grouped into units that commit together.

A unit is a group of views (most often one) with one vector of source positions. Its first view's table decides: a
commit there carries what the other views of the group and the auxiliary views get, so after a crash all of them are in
one state. Everything in memory can be thrown away at any time and made again from the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.query import Query, whole
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.messages import Commit, Position, Update
from weir.planning.choice import Choice
from weir.points import AFTER_COMMIT, reach
from weir.rounds.delivery import Block, Delivered, merged
from weir.rounds.deltas import RoundCommits, delta_of
from weir.rounds.machine import Machine
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag
from weir.sweeping.job import Costs, Numbering, SweptDelta, schema_of_view
from weir.warehouse.bags import bag_of, batch_of
from weir.warehouse.columns import escaped, unescaped
from weir.warehouse.following import Follower
from weir.warehouse.place import LOG
from weir.warehouse.record import APPEND, LOAD
from weir.warehouse.store import ViewStore

AUXILIARY = "_auxiliary"
NEW, RUNNING, WAITING, FAILED = "new", "running", "waiting", "failed"


class DefinitionChanged(WeirError):
    """A view's table holds another view than the one that is defined now."""


@dataclass(frozen=True)
class Tables:
    """Where the tables lie."""

    path: str
    storage: Mapping[str, str]

    def open(self, *names: str) -> ViewStore | None:
        place = self.place(*names)
        return ViewStore.open(place, self._options) if ViewStore.exists(place, self._options) else None

    def create(self, schema: Schema, *names: str) -> ViewStore:
        return ViewStore.create(self.place(*names), schema, "/".join(names), self._options)

    def replaced(self, old: ViewStore, schema: Schema, *names: str) -> ViewStore:
        """A new, empty table in place of one with other columns. Its log goes first, the newest version before all:
        whatever comes in between, what is left is an older state, or no table.
        """
        log = [name for name in old.place.listing(LOG) if not name.endswith(".json")]
        commits = sorted((name for name in old.place.listing(LOG) if name.endswith(".json")), reverse=True)
        old.place.discard([*log, *commits, *old.place.listing()])
        return self.create(schema, *names)

    def place(self, *names: str) -> str:
        return "/".join([self.path, *names])

    @property
    def _options(self) -> Mapping[str, str] | None:
        return self.storage or None


class MaintainedView:
    """One view, its table, and its algorithm while it runs."""

    def __init__(self, view: View, choice: Choice, tables: Tables, anew: bool = False) -> None:
        self.view, self.choice, self.tables = view, choice, tables
        self.name = view.name
        self.store = tables.open(view.name)
        self.auxiliary: dict[str, ViewStore] = {}
        self.machine: Machine | None = None
        self.last_arrival = 0
        self._updates: list[Update] = []
        self._commits: list[Commit] = []
        self._deltas: list[SweptDelta] = []
        self._delivered: dict[str, Position] = {}
        self._shown: dict[str, Position] = {}
        if self.store is not None and not anew:
            self._check_definition(self.store)

    @property
    def complete(self) -> bool:
        """Whether every transaction's state shall be kept."""
        return self.choice.asked == "complete"

    @property
    def level(self) -> str:
        """What its readers see: where states between are not asked for, only a round's last one is kept."""
        return "strong" if self.choice.level == "complete" and not self.complete else self.choice.level

    # -- the table -----------------------------------------------------------------------------------------------------

    @property
    def definition(self) -> str:
        """What tells this view from another of the same name: its normal form."""
        parts = [(term.slots, term.equalities, term.selections, term.rest, term.output) for term in self.view.terms]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _check_definition(self, store: ViewStore) -> None:
        known = store.head.notes.get("definition", self.definition)
        if store.head.transaction and known != self.definition:
            raise DefinitionChanged(
                f"the table of view {self.name} at {store.place.uri} was made from another definition; load it again "
                f"from the sources: weir run --reload {self.name} (or give the new view another name)"
            )

    @property
    def notes(self) -> dict[str, str]:
        """Kept with every commit."""
        folders = {name: store.place.uri.rsplit("/", 1)[-1] for name, store in self.auxiliary.items()}
        notes = {"definition": self.definition, "strategy": self.choice.strategy, "level": self.level}
        return {**notes, "auxiliary": json.dumps(folders)} if folders else notes

    def queries(self) -> dict[str, Query]:
        """What a first load evaluates: the view under the empty name, auxiliary views under theirs."""
        wanted = self.choice.algorithm.auxiliary_for(self.view, **self.choice.options)
        return {"": whole(self.view), **wanted}

    def table_for(self, name: str, schema: Schema, spark: SparkSession) -> ViewStore:
        """The view's own table (the empty name) or an auxiliary one, made where missing."""
        if not name:
            self.store = self._fitting(self.store, schema_of_view(self.view, spark), self.name)
            return self.store
        if name not in self.auxiliary:
            folder = hashlib.sha256(name.encode()).hexdigest()[:16]
            found = self.tables.open(AUXILIARY, self.name, folder)
            self.auxiliary[name] = self._fitting(found, escaped(schema), AUXILIARY, self.name, folder)
        return self.auxiliary[name]

    def _fitting(self, found: ViewStore | None, schema: Schema, *names: str) -> ViewStore:
        """The table that is there, if its columns are these."""
        if found is None:
            return self.tables.create(schema, *names)
        return found if found.schema == schema else self.tables.replaced(found, schema, *names)

    # -- the algorithm -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A fresh algorithm at the table's state."""
        assert self.store is not None, f"view {self.name} is not loaded"
        self.store.settle()
        head = self.store.head
        folders = json.loads(head.notes.get("auxiliary", "{}"))
        for name, folder in folders.items():
            if name not in self.auxiliary and (found := self.tables.open(AUXILIARY, self.name, folder)):
                self.auxiliary[name] = found
        self.last_arrival = head.last_arrival
        if self.queries().keys() - folders.keys() - {""} and not folders:
            raise DefinitionChanged(
                f"view {self.name} was kept without the auxiliary views that strategy {self.choice.strategy} needs; "
                f"load it again from the sources: weir run --reload {self.name}"
            )
        content = {name: _content(self.auxiliary[name]) for name in folders} or None
        algorithm = self.choice.algorithm(self.view, content, **self.choice.options)
        self.machine = Machine(algorithm)

    def stop(self) -> None:
        """Forgets all that is in memory."""
        self.machine = None
        self._updates, self._commits, self._deltas, self._delivered, self._shown = [], [], [], {}, {}
        self.auxiliary = {}
        if self.store is not None:
            self.store = self.tables.open(self.name)

    def deliver(self, blocks: Sequence[Sequence[Delivered]]) -> None:
        """A round's updates, all at once: the snapshots that answer have seen all of them."""
        assert self.machine is not None
        updates = [update for block in blocks for update in self._given(block)]
        if updates:
            self._updates += updates
            self._delivered |= {update.source: update.position for update in updates}
            self.machine.receive(updates)

    def _given(self, block: Sequence[Delivered]) -> Sequence[Update]:
        """A block's updates as the algorithm gets them."""
        assert self.machine is not None
        if self.machine.delegates:
            return block
        changing = [update for update in block if update.changes or update.part_of is not None]
        return [merged(changing)] if changing and self.choice.merge and not self.complete else changing

    @property
    def numbering(self) -> Numbering:
        """How a delegated sweep numbers what it stores."""
        assert self.machine is not None
        before = self.machine.algorithm.updates - len(self._updates)
        only = None if self.complete else self.last_arrival + len(self._updates)
        return Numbering(0, self.last_arrival - before, only)

    @property
    def holds_back(self) -> bool:
        return bool(self._updates)

    def take_round(self) -> RoundCommits | None:
        """What the algorithm has committed since the last time; None when there is nothing to write.

        An algorithm may hold something back beyond the round, such as a part of a global transaction. Then all of it
        waits here, because a restart must find it in the sources again.
        """
        assert self.machine is not None
        commits, deltas = self.machine.take_commits()
        self._commits += commits
        self._deltas += deltas
        for commit in commits:
            self._shown |= commit.positions
        if not self._updates or any(self._shown.get(source) != at for source, at in self._delivered.items()):
            return None
        commits, self._commits, deltas, self._deltas = self._commits, [], self._deltas, []
        updates, self._updates = self._updates, []
        count = len(commits) if self.complete else len(updates)
        first, self.last_arrival = self.last_arrival + 1, self.last_arrival + count
        return RoundCommits(commits, deltas, first, self.last_arrival, self.complete)


def _content(store: ViewStore) -> ArrowBag:
    """An auxiliary view, read back."""
    return bag_of(store.read_arrow(counted=True), unescaped(store.schema))


@dataclass
class Unit:
    """Views that commit together."""

    name: str
    views: list[MaintainedView]
    state: str = NEW
    problem: str = ""
    retry_at: float = 0.0
    positions: dict[str, Position] = field(default_factory=dict)  # of what its algorithms have received
    durable: dict[str, Position] = field(default_factory=dict)  # of its last commit
    overlap: set[str] = field(default_factory=set)  # sources that were resumed before its own position
    transactions: int = 0
    written: int = 0  # how many of them are committed, or are to be delivered once more
    commits: int = 0
    costs: Costs = field(default_factory=Costs)  # what was asked of the sources for it
    caught_up_at: float = 0.0  # everything that was visible then is committed
    committed_at: float = 0.0

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for view in self.views for source in view.view.sources))

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(dict.fromkeys(relation for view in self.views for relation in view.view.relations))

    @property
    def queue(self) -> int:
        """Transactions that it has received and not committed yet."""
        return self.transactions - self.written

    @property
    def leader(self) -> MaintainedView:
        return self.views[0]

    @property
    def holds_back(self) -> bool:
        """Whether some algorithm has received more than it has shown: then its positions must not be stored."""
        return any(view.holds_back for view in self.views)

    @property
    def loaded(self) -> bool:
        """Whether every table is there, with rows that belong to known positions."""
        stores = [view.store for view in self.views]
        return all(store is not None and store.head.transaction > 0 for store in stores)

    def recover(self) -> None:
        """Everything from the tables: positions, algorithms."""
        for view in self.views:
            view.start()
        store = self.leader.store
        assert store is not None
        self.durable = dict(store.positions())
        self.positions = dict(self.durable)
        self.state, self.problem = RUNNING, ""

    def forget(self) -> None:
        """Nothing in memory is to be trusted any more; the tables are."""
        for view in self.views:
            view.stop()
        self.positions = dict(self.durable)
        self.written = self.transactions
        self.overlap.clear()

    def receive(self, blocks: Sequence[Block]) -> None:
        """A round's transactions, source by source, to every view of the unit in the same order."""
        updates = [list(block.updates(self.relations)) for block in blocks]
        for view in self.views:
            view.deliver(updates)
        self.transactions += sum(map(len, updates))
        self.positions |= {block.source: block.position for block in blocks}


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnitWrite:
    """What a round brings to a unit's tables."""

    unit: Unit
    rounds: Mapping[str, RoundCommits]  # by view
    positions: Mapping[str, Position]
    transactions: int  # that the unit has received by then


def write(job: UnitWrite, spark: SparkSession) -> None:
    """One commit of the unit: the leader's table decides, the others follow."""
    parts = [part for view in job.unit.views for part in _parts(view, job.rounds.get(view.name), spark)]
    commit_together(parts, job.positions)


def commit_together(parts: Sequence[Follower], positions: Mapping[str, Position]) -> None:
    """The first part's table decides for all."""
    leading, *following = parts
    transaction = 1 + max(part.store.head.transaction for part in parts)
    act = leading.store.load if leading.kind == LOAD else leading.store.append
    steps = {} if leading.kind == LOAD else {"steps": tuple(leading.steps or ())}
    act(leading.batch, positions, leading.arrivals, transaction, notes=leading.notes, followers=following, **steps)
    reach(AFTER_COMMIT)


def _parts(view: MaintainedView, round_: RoundCommits | None, spark: SparkSession) -> Iterator[Follower]:
    assert view.store is not None
    if round_ is None:
        yield Follower(view.store, None, notes=view.notes)
        return
    kind, batch = delta_of(view.store, round_, spark)
    changes = list(_auxiliary(view, round_.commits, spark))
    yield Follower(view.store, batch, kind, None, round_.arrivals, tuple(round_.steps()), view.notes)
    yield from changes


def _auxiliary(view: MaintainedView, commits: Iterable[Commit], spark: SparkSession) -> Iterator[Follower]:
    """The auxiliary views' changes of a whole round."""
    total: dict[str, ArrowBag] = {}
    for commit in commits:
        for name, delta in commit.auxiliary.items():
            assert isinstance(delta, ArrowBag)
            total[name] = total[name] + delta if name in total else delta
    for name, delta in total.items():
        store = view.table_for(name, delta.schema, spark)
        rows = batch_of(delta.table, store.schema.names)
        yield Follower(store, rows if rows.num_rows else None, APPEND, steps=())


def loaded_part(store: ViewStore, rows: FrameBag, notes: Mapping[str, str]) -> Follower:
    """A table's whole content."""
    return Follower(store, batch_of(rows.rows, store.schema.names), LOAD, notes=notes)
