"""Random lives of a table with everything that can come in between, checked after every step: rows, feed, debts, count.

Files, runs and checkpoints are so small here that each step meets many of them.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.warehouse.batches import AB, Signed, batch
from weir.algebra.types import Row
from weir.warehouse import committing, delta_log, rewriting, row_index, staging, taking, vectors
from weir.warehouse.care import Limits
from weir.warehouse.columns import WEIGHT
from weir.warehouse.feed import changes_of
from weir.warehouse.following import Follower
from weir.warehouse.index_runs import INDEX
from weir.warehouse.record import AsOf
from weir.warehouse.staging import Staged
from weir.warehouse.store import ViewStore

DELTAS = ["append"] * 6 + ["in parts"] * 4 + ["led"] * 2 + ["load", "load of waiting files"]
BETWEEN = ["compact", "care", "optimize", "order", "reopen", "forget", "clean", "harm the index"]


class Life:
    """A table, the signed bag that it should hold, and a table that decides for it now and then."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice = dice
        self.store = ViewStore.create(folder / "view", AB, hash_bits=dice.choice([64, 2, 1]))
        self.leader = ViewStore.create(folder / "leader", AB)
        self.beside = ViewStore.open(self.store.place.uri)
        self.bag, self.told = Counter[Row](), Counter[Row]()
        self.states = dict[int, Counter[Row]]()
        self.arrival = self.transaction = 0

    @property
    def shown(self) -> Counter[Row]:
        return +self.bag

    def step(self) -> None:
        action = self.dice.choice(DELTAS + BETWEEN)
        if action in BETWEEN:
            self.between(action)
        elif action.startswith("load"):
            self.load(waiting=action != "load")
        else:
            self.append(action)
        self.check(action)

    # -- deltas --------------------------------------------------------------------------------------------------------

    def append(self, how: str) -> None:
        exact = self.dice.random() < 0.5 and min(self.bag.values(), default=0) >= 0
        first, last = self.arrival + 1, self.arrival + self.dice.randint(1, 3)
        signed = [each for number in range(first, last + 1) for each in self.signed(number, exact)]
        delta = self.in_parts(signed, last) if how == "in parts" else batch(AB, signed)
        self.arrival, self.transaction = last, self.transaction + 1
        if how == "led":
            part = Follower(self.store, delta, arrivals=(first, last), exact=exact)
            self.leader.append(None, {"s": last}, None, self.transaction, followers=[part])
        else:
            self.store.append(delta, {"s": last}, (first, last), self.transaction, exact=exact)

    def signed(self, number: int, exact: bool) -> Signed:
        found = []
        for _ in range(self.dice.randint(0, 6)):
            row, weight = self.row(), self.dice.choice([-2, -1, -1, 1, 1, 2])
            if not exact or self.bag[row] + weight >= 0:
                self.bag[row] += weight
                found.append((row, weight, number))
        self.states[number] = self.shown
        return found

    def row(self) -> Row:
        return self.dice.randint(0, 5), self.dice.choice(["p", "q", None])

    def in_parts(self, signed: Signed, last: int) -> Staged:
        parts: list[list[tuple[Row, int, int]]] = [[] for _ in range(self.dice.randint(1, 4))]
        for row, weight, number in signed:
            self.dice.choice(parts).append((tuple(row), weight, number))
        stager = self.store.stager(last=last)
        return sum((stager.write(batch(AB, part)) for part in parts), Staged())

    def load(self, waiting: bool) -> None:
        self.arrival, self.transaction = self.arrival + 1, self.transaction + 1
        self.bag = Counter(self.row() for _ in range(self.dice.randint(0, 9)))
        self.states[self.arrival] = self.shown
        rows = batch(AB, [(row, count, self.arrival) for row, count in self.bag.items()])
        delta = self.store.stage(rows, self.arrival) if waiting else rows
        self.store.load(delta, {"s": self.arrival}, (self.arrival, self.arrival), self.transaction)

    # -- what comes in between -----------------------------------------------------------------------------------------

    def between(self, action: str) -> None:
        whoever = self.dice.choice([self.store, self.beside])
        match action:
            case "compact":
                whoever.compact()
            case "care":
                whoever.care(Limits(files=2, gone=0.1, few=0))
            case "optimize":
                DeltaTable(self.store.place.uri).optimize.compact()
            case "order":
                DeltaTable(self.store.place.uri).optimize.z_order(["a"])
            case "reopen":
                self.store = ViewStore.open(self.store.place.uri)
            case "forget":
                self.store.forget(AsOf(version=self.dice.choice(self.store.log.versions()[-5:])))
                oldest = self.store.history()[0].last_arrival
                self.states = {number: state for number, state in self.states.items() if number >= oldest}
            case "clean":
                self.store.clean_orphans(timedelta(0))
            case "harm the index":
                self.harm_the_index()

    def harm_the_index(self) -> None:
        """One run is gone, another has a byte that is another one; new files, for a mapped one may be read on."""
        for name in self.store.place.listing(INDEX):
            file = Path(self.store.place.uri, name)
            content = bytearray(file.read_bytes())
            content[self.dice.randrange(len(content))] ^= 255
            if self.dice.random() < 0.5:
                file.unlink()
            if self.dice.random() < 0.5:
                file.unlink(missing_ok=True)
                file.write_bytes(bytes(content))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self, action: str) -> None:
        head, rows = self.store.head, self.store.read_arrow()
        assert counted(rows.to_pylist()) == self.shown, action
        self.store.check()
        owed = self.store.place.read_parquet([head.owed] if head.owed else [], rows.schema)
        assert counted(owed.to_pylist()) == -self.bag, action
        if action not in BETWEEN:
            for row in changes_of(self.store.log, head.version).to_pylist():
                self.told[row["a"], row["b"]] += row[WEIGHT]
            assert self.told == self.shown, action  # a count of zero is none

    def check_every_state(self) -> None:
        for number, state in self.states.items():
            assert counted(self.store.read_arrow(AsOf(arrival=number)).to_pylist()) == state, f"arrival {number}"


def counted(rows: list[dict[str, object]]) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("seed", range(8))
def test_every_step_of_a_random_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Rows, feed, debts and counts are the bag's after every step, and every kept state in the end."""
    dice = random.Random(seed)
    for module in (staging, rewriting, row_index):
        monkeypatch.setattr(module, "LARGE", 3)
    for module in (row_index, committing):
        monkeypatch.setattr(module, "MOST_RUNS", 2)
    monkeypatch.setattr(row_index, "MOST_IN_MEMORY", 5)
    monkeypatch.setattr(delta_log, "CHECKPOINT_EVERY", 7)
    monkeypatch.setattr(taking, "_SPARE", 1)
    monkeypatch.setattr(vectors, "TINY", dice.choice([0, 512]))
    life = Life(tmp_path, dice)
    for _ in range(25):
        life.step()
    life.check_every_state()
