"""The recorded commits of the soak's view against the replay: ``complete``, transaction by transaction.

Every arrival must be one transaction that no arrival before it was, and must change the view by exactly what that
transaction changes over the source states that have arrived. So every state is the view at its vector, the vectors go
forward one transaction at a time, and in the end all transactions are there. All of it is checked, nothing sampled.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weir.proving.soak.journal import JournalEntry, JournalRow
from weir.proving.soak.replay import COLUMNS, JournalRows, ShopReplay
from weir.sources.source import Source, Transaction
from weir.warehouse.columns import ARRIVAL, WEIGHT
from weir.warehouse.record import APPEND, LOAD, AsOf, Record
from weir.warehouse.store import ViewStore

_FAR = 300  # so many transactions in a row that a position does not hold: it holds none behind them
_TOLD = 20
_NAME = re.compile(r"\d+|\d+-\d+-\d+|[^{}:]+\.\d+:\d+")  # of one transaction: a number, a GTID, a place in a binlog


@dataclass
class Findings:
    """What the walk over all recorded commits found."""

    commits: int = 0
    arrivals: int = 0
    unchanged: int = 0  # arrivals that left the view as it was
    merged: int = 0  # arrivals of several transactions at once (only where a source cannot tell them apart)
    transactions: int = 0  # those of the first load are not among them
    loaded: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.wrong and not self.merged

    def tell(self, problem: str) -> None:
        if len(self.wrong) < _TOLD:
            self.wrong.append(problem)


class Recorded:
    """Walks over the commits of a view that was kept at level ``complete``."""

    def __init__(
        self, store: ViewStore, sources: Mapping[str, Source], first: Mapping[str, Mapping[int, JournalRow]],
        journal: Iterable[JournalEntry], merging: Collection[str] = (),
    ) -> None:  # fmt: skip
        """``merging``: sources that may tell several transactions together under the name of the last one."""
        self.store, self.sources, self._merging = store, sources, merging
        self.findings, self.replay = Findings(), ShopReplay()
        for source, rows in first.items():
            self.replay.apply(source, rows.items())
        self._waiting: defaultdict[str, dict[str, JournalEntry]] = defaultdict(dict)  # not yet arrived, by identity
        for entry in journal:
            self._waiting[entry.source][entry.identity] = entry
        self._vector: dict[str, object] = {}

    def check(self) -> Findings:
        for version in self.store.log.versions():
            record = self.store.log.record(version)
            if record.kind == LOAD:
                self._load(record)
            elif record.kind == APPEND and record.arrivals is not None:
                self._append(record)
        for source, waiting in self._waiting.items():
            if waiting:
                self.findings.tell(
                    f"{len(waiting)} transactions of {source} never arrived, {next(iter(waiting))} first"
                )
        if self._stored(AsOf()) != self.replay.value():
            self.findings.tell("the last state is not the view over the last source states")
        return self.findings

    def _load(self, record: Record) -> None:
        """Everything that the positions hold is in it."""
        for source, position in record.positions.items():
            for entry in self._take(source, str(position)):
                self.replay.apply(source, entry.changes)
                self.findings.loaded += 1
            self._vector[source] = position
        if self._stored(AsOf(version=record.version)) != self.replay.value():
            self.findings.tell(f"version {record.version}, a load, is not the view at its positions")

    def _append(self, record: Record) -> None:
        assert record.arrivals is not None
        self.findings.commits += 1
        changes = self._changes(record.version)
        steps: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        for arrival, source, position in record.steps:
            steps[arrival].append((source, str(position)))
        first, last = record.arrivals
        for arrival in range(first, last + 1):
            self._arrive(arrival, steps[arrival], changes.pop(arrival, Counter()))
        if changes:
            self.findings.tell(f"version {record.version} holds rows of arrivals it does not name: {sorted(changes)}")

    def _arrive(self, arrival: int, steps: list[tuple[str, str]], stored: JournalRows) -> None:
        entries = [entry for source, position in steps for entry in self._step(source, position)]
        expected: JournalRows = Counter()
        for entry in entries:
            expected.update(self.replay.apply(entry.source, entry.changes))
        expected = Counter({row: count for row, count in expected.items() if count})
        self.findings.arrivals += 1
        self.findings.transactions += len(entries)
        self.findings.merged += len(entries) > 1
        self.findings.unchanged += not stored
        if not entries:
            self.findings.tell(f"arrival {arrival} is no transaction that had not arrived before: {steps}")
        if stored != expected:
            names = ", ".join(f"{entry.source} {entry.identity}" for entry in entries)
            extra, missing = _some(stored - expected), _some(expected - stored)
            self.findings.tell(f"arrival {arrival} ({names}) changes {extra} too much and {missing} too little")

    def _step(self, source: str, position: str) -> list[JournalEntry]:
        """The transactions that this step brings; a position that was there before brings none."""
        if self._vector.get(source) == position:
            return []
        self._vector[source] = position
        if source in self._merging and position.isdigit():
            return self._take_up_to(source, int(position))
        found = self._waiting[source].pop(position, None)
        return [found] if found is not None else self._take(source, position)

    def _take_up_to(self, source: str, number: int) -> list[JournalEntry]:
        """Where names are numbers in the order of the commits."""
        waiting = self._waiting[source]
        return [waiting.pop(identity) for identity in list(waiting) if int(identity) <= number]

    def _take(self, source: str, position: str) -> list[JournalEntry]:
        """Those that a position holds and that have not arrived yet: it is not one transaction's own name."""
        if _NAME.fullmatch(position):
            return []  # the name of a transaction that nobody wrote, or that has arrived before
        taken, misses = [], 0
        for identity in list(self._waiting[source]):
            if self.sources[source].holds(position, Transaction(identity)):
                taken.append(self._waiting[source].pop(identity))
                misses = 0
            elif (misses := misses + 1) > _FAR:
                break
        return taken

    # -- what is stored ------------------------------------------------------------------------------------------------

    def _stored(self, as_of: AsOf) -> JournalRows:
        return Counter(dict(_rows(self.store.read_arrow(as_of, counted=True))))

    def _changes(self, version: int) -> defaultdict[int, JournalRows]:
        """A commit's own rows, by arrival."""
        found: defaultdict[int, JournalRows] = defaultdict(Counter)
        steps = self.store.read_steps(version)
        for (row, weight), arrival in zip(_rows(steps), steps.column(ARRIVAL).to_pylist(), strict=True):
            found[arrival][row] += weight
        return defaultdict(Counter, {at: Counter({r: n for r, n in rows.items() if n}) for at, rows in found.items()})


def _some(rows: JournalRows) -> str:
    return f"{dict(rows.most_common(3))}{' and more' if len(rows) > 3 else ''}"


def _rows(table: pa.Table) -> Iterator[tuple[JournalRow, int]]:
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    yield from zip(zip(*columns, strict=True), table.column(WEIGHT).to_pylist(), strict=True)
