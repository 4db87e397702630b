"""The oracle of exactness: every answer equals the replay of exactly the transactions delivered before it.

``Replay`` holds every watched table as a bag of rows, starts from a first load, and follows the delivered changes. It
knows nothing of any kind of database. ``Ledger`` proves that no transaction is lost, doubled, split or merged; for
that the writers keep to three rules:

- every transaction inserts one row with a unique id into the ledger table;
- every row a transaction writes elsewhere carries that id in its column ``tx``;
- the ledger row tells the transaction's ``growth``: rows added minus rows removed, over all other tables (NULL: not
  known).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.algebra.types import NAN
from weir.sources.source import TRANSACTION, WEIGHT, Answers, HeldSnapshot, Partition, Source, Visit

PlainRow = tuple[Any, ...]
CountedRows = Counter[PlainRow]  # a row and how often it occurs; below zero: deleted before it was there
TRANSACTION_COLUMN = "tx"


class Replay:
    """The content of every watched table, as the delivered transactions make it."""

    def __init__(self, columns: Mapping[Relation, Sequence[str]], ledger: Ledger | None = None) -> None:
        self.columns = {relation: tuple(names) for relation, names in columns.items()}
        self.tables: dict[Relation, CountedRows] = {relation: Counter() for relation in columns}
        self.transactions = 0
        self.ledger = ledger

    def load(self, source: Source) -> str:
        """Starts from the source's first load; returns the load's position."""
        load = source.load()
        try:
            for partition in load.held.parts():
                self.tables[partition.relation].update(self._rows_of(load.held, partition))
        finally:
            load.held.release()
        if self.ledger is not None:
            self.ledger.start(self.tables, self.columns)
        return load.position

    def as_it_is(self) -> Replay:
        """A copy that goes on no further."""
        copy = Replay(self.columns)
        copy.tables = {relation: Counter(rows) for relation, rows in self.tables.items()}
        return copy

    def _rows_of(self, held: HeldSnapshot, partition: Partition) -> Iterator[PlainRow]:
        for batch in held.read(partition):
            yield from rows_of(pa.Table.from_batches([batch]), self.columns[partition.relation])

    def apply(self, visit: Visit) -> list[str]:
        """Follows the delivered transactions, one after the other; returns what is wrong with them."""
        failures: list[str] = []
        by_number = self._by_transaction(visit, failures)
        for number, transaction in enumerate(visit.transactions):
            deltas = by_number.get(number, {})
            name = f"transaction {transaction.identifier}"
            truncated = [relation for relation, numbers in visit.truncations.items() if number in numbers]
            for relation in truncated:
                self.tables[relation].clear()
            for relation, delta in deltas.items():
                failures += [f"{name}: {problem}" for problem in self._follow(relation, delta)]
            alone = truncated and not deltas  # where TRUNCATE is a transaction by itself, it has no row in the ledger
            if self.ledger is not None and not alone:
                failures += [f"{name}: {problem}" for problem in self.ledger.follow(deltas, self.columns)]
        self.transactions += len(visit.transactions)
        return failures

    def _by_transaction(self, visit: Visit, failures: list[str]) -> dict[int, dict[Relation, CountedRows]]:
        """Number of the transaction -> table -> its rows with their summed weights."""
        gathered: dict[int, dict[Relation, CountedRows]] = defaultdict(lambda: defaultdict(Counter))
        for relation, table in visit.changes.items():
            *columns, weight, number = (*self.columns[relation], WEIGHT, TRANSACTION)
            for *row, row_weight, row_number in rows_of(table, [*columns, weight, number]):
                gathered[row_number][relation][tuple(row)] += row_weight
        strangers = [number for number in gathered if not 0 <= number < len(visit.transactions)]
        failures += [f"changes of a transaction {n} among {len(visit.transactions)} delivered ones" for n in strangers]
        return gathered

    def _follow(self, relation: Relation, delta: CountedRows) -> Iterator[str]:
        content = self.tables[relation]
        for row, weight in delta.items():
            content[row] += weight
            if weight < 0 and content[row] < 0:
                yield f"removes a row of {relation} that is not there: {_short(row)}"
            if content[row] == 0:
                del content[row]

    def compare(self, answers: Answers, lookups: Sequence[Lookup], exact: bool = True) -> list[str]:
        """One line per wrong answer.

        Without ``exact`` an answer may hold more of the table's rows than were asked for.
        """
        if len(answers) != len(lookups):
            return [f"{len(answers)} answers to {len(lookups)} lookups"] * max(len(lookups), 1)
        pairs = zip(lookups, answers, strict=True)
        return [problem for lookup, answer in pairs if (problem := self._difference(lookup, answer, exact))]

    def _difference(self, lookup: Lookup, answer: pa.Table, exact: bool) -> str:
        columns = tuple(answer.column_names)
        if columns != tuple(lookup.columns):
            return f"the answer for {lookup.relation} has the columns {columns}, not {lookup.columns}"
        got = Counter(rows_of(answer, columns))
        if not exact and lookup.keys is not None:
            if extra := got - self._expected(Lookup(lookup.relation, lookup.columns)):
                return f"answer for {lookup.relation}: rows that the table does not hold: {_sample(extra)}"
            got = _restrict(got, columns, lookup)
        expected = self._expected(lookup)
        if got == expected:
            return ""
        missing, extra = expected - got, got - expected
        return f"answer for {lookup.relation}: missing {_sample(missing)}; not expected {_sample(extra)}"

    def _expected(self, lookup: Lookup) -> CountedRows:
        columns, content = self.columns[lookup.relation], self.tables[lookup.relation]
        matching = content if lookup.keys is None else _restrict(content, columns, lookup)
        if tuple(lookup.columns) == columns:
            return matching
        pick = _picker(columns, lookup.columns)
        projected: CountedRows = Counter()
        for row, count in matching.items():
            projected[pick(row)] += count
        return projected

    def rows(self, relation: Relation) -> list[PlainRow]:
        return list(self.tables[relation])


class Inexact(WeirError):
    """A source delivered or answered something wrong."""


def ask(source: Source, lookups: Sequence[Lookup]) -> tuple[Visit, Answers]:
    """One visit and its answers, as a round makes them: hold, look, release."""
    visit = source.visit(hold=True)
    assert visit.held is not None
    try:
        return visit, visit.held.look(lookups)
    finally:
        visit.held.release()


class ReplayedSource:
    """A source and its replay, compared at every step; ``answers`` are those of the last one.

    Begins with a first load unless told from which replay to go on.
    """

    answers: Answers = ()

    def __init__(self, source: Source, columns: Mapping[Relation, Sequence[str]], replay: Replay | None = None) -> None:
        self.source = source
        source.watch(columns)
        self.replay = replay or Replay(columns)
        self.position = self.replay.load(source) if replay is None else ""

    def check(self, lookups: Sequence[Lookup] = ()) -> Visit:
        """Visits with these lookups and one for every whole table; raises Inexact unless all is as replayed."""
        whole = [Lookup(relation, columns) for relation, columns in self.replay.columns.items()]
        questions = [*lookups, *whole]
        visit, self.answers = ask(self.source, questions)
        problems = self.replay.apply(visit) + self.replay.compare(self.answers, questions)
        if problems:
            raise Inexact("; ".join(problems[:5]))
        self.position = visit.position
        return visit


class Ledger:
    """Every transaction delivered once and whole. ``one_each``: each delivered one is exactly one of the writers'.

    A kind that cannot tell neighbouring transactions apart may merge some into one: then ``one_each`` is False, and
    still none may be split, lost or doubled.
    """

    def __init__(self, relation: Relation, one_each: bool = True) -> None:
        self.relation = relation
        self.one_each = one_each
        self.delivered: set[int] = set()

    def start(self, tables: Mapping[Relation, CountedRows], columns: Mapping[Relation, Sequence[str]]) -> None:
        """The first load holds these."""
        at = columns[self.relation].index("id")
        self.delivered = {row[at] for row in tables[self.relation]}

    def follow(
        self, deltas: Mapping[Relation, CountedRows], columns: Mapping[Relation, Sequence[str]]
    ) -> Iterator[str]:
        names = columns[self.relation]
        entries = [(row[names.index("id")], row[names.index("growth")]) for row in deltas.get(self.relation, ())]
        identifiers = {identifier for identifier, _ in entries}
        if self.one_each and len(identifiers) != 1:
            yield f"holds {len(identifiers)} of the writers' transactions, not one"
        if again := identifiers & self.delivered:
            yield f"delivers {sorted(again)[:5]} again"
        self.delivered |= identifiers
        yield from self._split(deltas, columns, identifiers)
        yield from self._growth(deltas, [growth for _, growth in entries])

    def _split(
        self, deltas: Mapping[Relation, CountedRows], columns: Mapping[Relation, Sequence[str]], identifiers: set[int]
    ) -> Iterator[str]:
        for relation, delta in deltas.items():
            if relation == self.relation:
                continue
            at = list(columns[relation]).index(TRANSACTION_COLUMN)
            strangers = {row[at] for row, weight in delta.items() if weight > 0} - identifiers
            if strangers:
                yield f"is split: {relation} has rows of {sorted(strangers)[:5]}, whose ledger row is elsewhere"

    def _growth(self, deltas: Mapping[Relation, CountedRows], promised: Sequence[int | None]) -> Iterator[str]:
        if None in promised:
            return
        seen = sum(sum(delta.values()) for relation, delta in deltas.items() if relation != self.relation)
        if seen != sum(growth for growth in promised if growth is not None):
            yield f"is split: {seen} more rows, the ledger says {promised}"


def rows_of(table: pa.Table, columns: Sequence[str]) -> Iterable[PlainRow]:
    """The rows as tuples of Python values; NaN is one object, so that it equals itself."""
    values = [table.column(name).to_pylist() for name in columns]
    for at, name in enumerate(columns):
        if pa.types.is_floating(table.schema.field(name).type):
            values[at] = [NAN if value != value else value for value in values[at]]
    return zip(*values, strict=True) if values else iter([()] * table.num_rows)


def _restrict(content: CountedRows, columns: Sequence[str], lookup: Lookup) -> CountedRows:
    assert lookup.keys is not None
    keys = {row for row, _ in lookup.keys.keep(lookup.key_columns).items()}
    pick = _picker(columns, lookup.key_columns)
    return Counter({row: n for row, n in content.items() if (key := pick(row)) in keys and None not in key})


def _picker(columns: Sequence[str], wanted: Sequence[str]) -> Any:
    positions = [list(columns).index(name) for name in wanted]
    if len(positions) == 1:
        only = positions[0]
        return lambda row: (row[only],)
    return itemgetter(*positions) if positions else lambda row: ()


def _sample(rows: CountedRows) -> str:
    shown = ", ".join(_short(row) for row in list(rows)[:3])
    return f"{sum(rows.values())} rows" + (f" ({shown})" if shown else "")


def _short(row: PlainRow) -> str:
    text = repr(row)
    return text if len(text) <= 120 else text[:117] + "..."
