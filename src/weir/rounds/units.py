"""A unit: views that commit together (most often one), with one vector of source positions, and its life.

The first view's table decides: a commit there carries what the other views of the group and the auxiliary views get, so
after a crash all of them are in one state. Everything in memory can be thrown away at any time and made again from the
tables.

Its life: a **new** unit has to be loaded, or to go on from its tables; a **running** one takes part in rounds; one that
is **waiting** holds nothing in memory and is revived when its sources are there again; a **failed** one stays so until
somebody has done what its problem says.

Its pace: what its sources deliver goes to its **inbox**. While it is **at work** (a thread of its own receives, asks,
or loads) the inbox fills for the next time; everything else about it is done between two works, by the round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.life import Life, LifeTable
from weir.messages import Position
from weir.rounds.conversation import Conversation
from weir.rounds.delivery import Block
from weir.rounds.holds import Hold
from weir.rounds.views import MaintainedView
from weir.sweeping.order import Asked
from weir.warehouse.errors import StoreError
from weir.warehouse.store import ViewStore

NEW, RUNNING, WAITING, FAILED = "new", "running", "waiting", "failed"
RECOVERED, INTERRUPTED, REVIVED, STOPPED = "recovered", "interrupted", "revived", "stopped"
LIFE: LifeTable = {
    NEW: {RECOVERED: RUNNING, INTERRUPTED: WAITING, STOPPED: FAILED},
    RUNNING: {RECOVERED: RUNNING, INTERRUPTED: WAITING, STOPPED: FAILED},
    WAITING: {REVIVED: NEW, INTERRUPTED: WAITING, STOPPED: FAILED},
    FAILED: {INTERRUPTED: FAILED, STOPPED: FAILED},
}


@dataclass
class Unit:
    """Views that commit together."""

    name: str
    views: list[MaintainedView]
    anew: bool = False  # to be loaded, whatever its tables hold
    problem: str = ""
    retry_at: float = 0.0
    positions: dict[str, Position] = field(default_factory=dict)  # of what was handed over to its algorithms
    durable: dict[str, Position] = field(default_factory=dict)  # of its last commit
    ahead: set[str] = field(default_factory=set)  # sources that deliver again what it has
    inbox: dict[str, Block] = field(default_factory=dict)  # by source: what was delivered since
    holds: dict[str, Hold] = field(default_factory=dict)  # by source: the snapshot up to which it was, if it is at rest
    at_work: bool = False
    set_out_at: float = float("-inf")  # the last time, by the clock that never goes back
    is_last: bool = False  # the work that it is at: it cannot go on afterwards
    setbacks: int = 0  # in a row: works that failed by nobody's known trouble
    called_off: int = 0  # in a row: works at a source that said nothing
    _afterwards: Callable[[], None] | None = None  # what has happened to it while it was at work
    transactions: int = 0  # received; each once, however often it is delivered
    written: int = 0  # how many of them are committed
    commits: int = 0
    asked: Asked = field(default_factory=Asked)  # what was asked of the sources for it
    caught_up_at: float = 0.0  # everything that was visible then is committed
    committed_at: float = 0.0
    _life: Life = field(default_factory=lambda: Life(LIFE, NEW))
    _refused: tuple[str, int] = ("", -1)  # why its last write failed, and how many had succeeded before

    @property
    def state(self) -> str:
        return self._life.state

    @property
    def told(self) -> tuple[str, str]:
        """State and problem as its user is told them: after a write that failed it waits until one has succeeded, also
        while it is tried once more.
        """
        why, commits = self._refused
        unproved = self.state in (NEW, RUNNING) and commits == self.commits
        return (WAITING, why) if unproved else (self.state, self.problem)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for view in self.views for source in view.view.sources))

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(dict.fromkeys(relation for view in self.views for relation in view.view.relations))

    @property
    def queue(self) -> int:
        """Transactions that it has received and not committed yet."""
        return max(self.transactions - self.written, 0)

    @property
    def leader(self) -> MaintainedView:
        """Its table decides; the others follow in the same commit."""
        return self.views[0]

    @property
    def holds_back(self) -> bool:
        """Whether some algorithm has received more than it has shown: then its positions must not be stored."""
        return any(conversation.holds_back for conversation in self.conversations)

    @property
    def conversations(self) -> list[Conversation]:
        return [view.conversation for view in self.views if view.conversation is not None]

    @property
    def loaded(self) -> bool:
        """Whether every table is there, with rows that belong to known positions."""
        if self.leader.loaded:
            self.leader.settle()  # what it has decided for the others counts
        return all(view.loaded for view in self.views)

    def recover(self) -> None:
        """Everything from the tables: positions, algorithms."""
        for view in self.views:
            view.start()
        store = self.leader.store
        assert store is not None
        self._check_together(store)
        self.durable = dict(store.positions())
        self.positions = dict(self.durable)
        self.transactions = self.written = max(self.transactions, self.written)
        self._life.happens(RECOVERED)
        self.problem, self.anew = "", False

    def _check_together(self, leading: ViewStore) -> None:
        """Views of one unit stand at one vector: where one table is older or newer, not all can be gone on with."""
        wanted = leading.positions()
        for view in self.views[1:]:
            assert view.store is not None
            found = view.store.positions()
            if any(found.get(source) != wanted.get(source) for source in self.sources):
                raise StoreError(
                    f"views {self.leader.name} and {view.name} commit together, but their tables do not stand at the "
                    f"same positions; load them again from their sources: weir run --reload {self.leader.name}"
                )

    def start_anew(self) -> None:
        """After a load, at work: from its tables; what came meanwhile stays in the inbox."""
        for view in self.views:
            view.stop()
        self.written = self.transactions
        self.recover()

    def interrupt(self, why: str, pause: float = 0.0) -> None:
        """It waits, at least so many seconds (for a write that failed); one that has failed stays so, and one at work
        finishes that first.
        """
        if self.at_work:
            self._afterwards = self._afterwards or (lambda: self.interrupt(why, pause))
            return
        self._life.happens(INTERRUPTED)
        if self.state == WAITING:
            self.problem, self.retry_at = why, time.monotonic() + pause
            self._refused = (why, self.commits) if pause else self._refused
        self.transactions = self.written  # the others are delivered once more
        self.forget()

    def revive(self) -> None:
        """Back from its tables, or to be loaded where they are not there."""
        self._life.happens(REVIVED)
        self.forget()
        if not self.anew and self.loaded:
            self.recover()

    def stop(self, problem: WeirError) -> None:
        """It cannot go on as it is; one at work finishes that first."""
        if self.at_work:
            self.is_last, self._afterwards = True, lambda: self.stop(problem)
            return
        self._life.happens(STOPPED)
        self.problem = str(problem)
        self.transactions = self.written
        self.forget()

    def forget(self) -> None:
        """Nothing in memory is to be trusted any more; the tables are."""
        for view in self.views:
            view.stop()
        self.positions = dict(self.durable)
        self.ahead.clear()
        self.inbox.clear()
        self.let_go()

    def end_work(self) -> None:
        """It is not at work any more: what has happened to it meanwhile takes effect."""
        self.at_work = self.is_last = False
        happened, self._afterwards = self._afterwards, None
        if happened is not None:
            happened()

    # -- its inbox -----------------------------------------------------------------------------------------------------

    def give(self, block: Block, hold: Hold | None) -> None:
        """What a source delivers, for the next work; one that is to be loaded will see it in the snapshots. The
        snapshot that shows just this much is kept for it while other sources are waited for.
        """
        self.let_go(block.source)
        if self.state in (NEW, RUNNING):
            before = self.inbox.get(block.source)
            self.inbox[block.source] = block if before is None else before.followed_by(block)
            if hold is not None and not self.at_work:
                self.holds[block.source] = hold.join()

    def give_back(self, source: str) -> None:
        """What a source has delivered will come again."""
        self.inbox.pop(source, None)
        self.let_go(source)

    def let_go(self, *sources: str) -> None:
        """Of these sources' snapshots, or of all."""
        for source in sources or tuple(self.holds):
            if (hold := self.holds.pop(source, None)) is not None:
                hold.leave()

    def take_holds(self) -> dict[str, Hold]:
        """For the work that it sets out to."""
        taken, self.holds = self.holds, {}
        return taken

    @property
    def has_work(self) -> bool:
        """Whether it has to be loaded, or something in its inbox concerns it."""
        return self.state == NEW or any(block.concerns(self.relations) for block in self.inbox.values())

    @property
    def needs_load(self) -> bool:
        """It is new, or a table of its was emptied without a word on its rows."""
        return self.state == NEW or any(block.truncated & set(self.relations) for block in self.inbox.values())

    @property
    def inbox_bytes(self) -> int:
        return sum(block.nbytes for block in self.inbox.values())

    def hand_over(self) -> list[Block]:
        """Empties the inbox, a block per source: from now on the unit has received it."""
        blocks = [self.inbox[source] for source in self.sources if source in self.inbox]
        self.inbox = {}
        self.positions |= {block.source: block.position for block in blocks}
        return blocks

    def count(self, blocks: Sequence[Block]) -> int:
        """How many of a round's transactions ``receive`` would take."""
        return sum(1 for block in blocks for _ in block.updates(self.relations))

    def receive(self, blocks: Sequence[Block]) -> None:
        """A round's transactions, source by source, to every view of the unit in the same order."""
        updates = [list(block.updates(self.relations)) for block in blocks]
        for view in self.views:
            view.deliver(updates)
        self.transactions += sum(map(len, updates))
