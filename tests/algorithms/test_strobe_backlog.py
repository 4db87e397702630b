"""A backlog of the Strobe family: twice as many pending transactions are twice the work, counted in rows looked at.

Everything arrives before the first answer, and every answer shows the sources' last state, as in a round on Spark after
a pause. Counted is what the algorithm does and what applying its commits does; what sources do to answer is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.hops import Lookup
from weir.algebra.hops import answer as look
from weir.algebra.memory import MemoryBag
from weir.algebra.query import evaluate_with, whole
from weir.algebra.sql import parse_view
from weir.algebra.types import Row, Schema
from weir.algorithms.base import Algorithm
from weir.algorithms.c_strobe import CStrobe
from weir.algorithms.c_t_strobe import CTStrobe
from weir.algorithms.driver import Driver
from weir.algorithms.g_strobe import GStrobe
from weir.algorithms.strobe import Strobe
from weir.algorithms.t_strobe import TStrobe
from weir.messages import Ask, Change, Commit, Effect, GlobalTransaction, Update, apply_actions
from weir.rounds.conversation import answer
from weir.spark.arrow_bag import ArrowBag

ORDERS, CUSTOMERS = Relation("sales", "orders"), Relation("crm", "customer")
SCHEMAS = {ORDERS: Schema.parse("id int, customer int, amount int"), CUSTOMERS: Schema.parse("id int, name string")}
VIEW = parse_view(
    "CREATE MATERIALIZED VIEW v AS SELECT o.id, o.amount, c.id AS customer, c.name FROM sales.orders o "
    "JOIN crm.customer c ON o.customer = c.id",
    Catalog.of(Table(relation, schema, ("id",)) for relation, schema in SCHEMAS.items()),
)
OPERATIONS = (
    "__add__", "scale", "select", "project", "keep", "rename", "tagged", "join", "join_as_of", "distinct", "occurring",
    "positive", "matching", "without",
)  # fmt: skip
Bags = Callable[[Schema, list[tuple[Row, int]]], Any]
BAGS: dict[type, Bags] = {MemoryBag: MemoryBag.weighted, ArrowBag: ArrowBag.weighted}
SOME = 40
TWICE = 2.5  # sums of many bags are n log n


# -- the backlog -------------------------------------------------------------------------------------------------------


@dataclass
class Backlog:
    """What the tables held at first, transactions since then, and what they hold now."""

    bags: Bags
    now: dict[Relation, dict[int, Row]]
    before: dict[Relation, Any] = field(init=False)
    updates: list[Update] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.before = {relation: self.table(relation) for relation in SCHEMAS}

    def table(self, relation: Relation) -> Any:
        return self.bags(SCHEMAS[relation], [(row, 1) for row in self.now[relation].values()])

    def write(self, relation: Relation, key: int, row: Row | None, part_of: GlobalTransaction | None = None) -> None:
        """A transaction that puts the row under the key, or takes away what is there."""
        old, schema = self.now[relation].pop(key, None), SCHEMAS[relation]
        if row is not None:
            self.now[relation][key] = row
        inserted, deleted = (None if each is None else self.bags(schema, [(each, 1)]) for each in (row, old))
        change = Change(relation, inserted, deleted)
        self.updates.append(Update(relation.source, len(self.updates) + 1, (change,), part_of=part_of))


def mixed(bags: Bags, count: int) -> Backlog:
    """Inserts, deletes of old and of new rows, and modifications, all over the keys."""
    backlog = Backlog(
        bags, {ORDERS: {n: (n, n % 9, 1) for n in range(20)}, CUSTOMERS: {n: (n, "Ann") for n in range(9)}}
    )
    for number in range(count):
        match number % 5:
            case 0 | 1:
                backlog.write(ORDERS, 100 + number, (100 + number, number % 9, 2))
            case 2:
                backlog.write(ORDERS, 98 + number if number % 2 else number // 5, None)
            case 3:
                backlog.write(CUSTOMERS, number % 9, (number % 9, f"Ann {number}"))
            case _:
                backlog.write(ORDERS, 97 + number, (97 + number, number % 7, 3))
    return backlog


def one_key(bags: Bags, count: int) -> Backlog:
    """One row that is modified again and again."""
    backlog = Backlog(bags, {ORDERS: {1: (1, 1, 0)}, CUSTOMERS: {1: (1, "Ann")}})
    for number in range(count):
        backlog.write(ORDERS, 1, (1, 1, number + 1))
    return backlog


def in_parts(bags: Bags, count: int) -> Backlog:
    """Global transactions, each an order and its customer."""
    backlog = Backlog(bags, {ORDERS: {}, CUSTOMERS: {}})
    for number in range(count // 2):
        part_of = GlobalTransaction(f"g{number}", frozenset(["sales", "crm"]))
        backlog.write(ORDERS, number, (number, number, 1), part_of)
        backlog.write(CUSTOMERS, number, (number, "Ann"), part_of)
    return backlog


# -- running it --------------------------------------------------------------------------------------------------------


class Work:
    """Counts every operation on bags of one kind, and every row that it is given, while it is switched on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
        self.operations, self.rows, self.counting, self.kind = 0, 0, False, kind
        for name in OPERATIONS:
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.counting:
                self.operations += 1
                self.rows += sum(self._size(each) for each in arguments if isinstance(each, self.kind))
            return operation(*arguments, **options)

        return counted

    def _size(self, bag: Any) -> int:
        return bag.rows.num_rows if isinstance(bag, ArrowBag) else len(bag)

    @contextmanager
    def on(self) -> Iterator[None]:
        self.counting = True
        yield
        self.counting = False


@dataclass(frozen=True)
class Outcome:
    """What a run took."""

    operations: int
    rows: int
    questions: int


def run(kind: type[Algorithm], backlog: Backlog, together: bool, work: Work) -> Outcome:
    """To its end, which must be right."""
    driver, open_, commits, questions = Driver(kind(VIEW)), [], [], 0

    def carry_out(effects: Sequence[Effect]) -> None:
        nonlocal questions
        for effect in effects:
            if isinstance(effect, Ask):
                open_.append(effect)
                questions += 1
            elif isinstance(effect, Commit):
                commits.append(effect)

    def fetch(lookup: Lookup) -> Any:
        return look(lookup, backlog.table(lookup.relation))

    for arriving in [backlog.updates] if together else [[update] for update in backlog.updates]:
        with work.on():
            effects = driver.deliver(driver.number(arriving))
        carry_out(effects)
    while open_:
        answered = answer(open_.pop(0), fetch)
        with work.on():
            effects = driver.receive(answered)
        carry_out(effects)
    view = evaluate_with(whole(VIEW), lambda lookup: look(lookup, backlog.before[lookup.relation]))
    with work.on():
        for commit in commits:
            view = apply_actions(view, commit.actions)
    assert view == evaluate_with(whole(VIEW), fetch)
    return Outcome(work.operations, work.rows, questions)


def doubled(kind: type[Algorithm], made: Callable[[Bags, int], Backlog], together: bool, bag: Any) -> list[Outcome]:
    """A backlog, and one of twice its length."""
    outcomes = []
    for count in (SOME, 2 * SOME):
        with pytest.MonkeyPatch.context() as patch:
            outcomes.append(run(kind, made(BAGS[bag], count), together, Work(patch, bag)))
    return outcomes


@pytest.fixture(params=[MemoryBag, ArrowBag], ids=["memory", "arrow"])
def bag(request: pytest.FixtureRequest) -> Any:
    return request.param


CASES = [
    (Strobe, mixed),
    (TStrobe, mixed),
    (GStrobe, mixed),
    (Strobe, one_key),
    (TStrobe, one_key),
    (GStrobe, in_parts),
]


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize(("kind", "made"), CASES)
def test_twice_the_backlog_is_twice_the_work(
    kind: type[Algorithm], made: Callable[[Bags, int], Backlog], together: bool, bag: Any
) -> None:
    """Rows looked at from the first transaction's arrival to the view that shows the last one."""
    once, twice = doubled(kind, made, together, bag)
    assert twice.rows <= TWICE * once.rows, f"{twice.rows / once.rows:.2f} times the rows"
    assert twice.operations <= TWICE * once.operations, f"{twice.operations / once.operations:.2f} times the operations"


@pytest.mark.parametrize("made", [mixed, one_key])
@pytest.mark.parametrize("kind", [CStrobe, CTStrobe])
def test_c_strobe_does_not_go_through_what_waits_one_by_one(
    kind: type[Algorithm], made: Callable[[Bags, int], Backlog], bag: Any
) -> None:
    """One update after the other is brought back over all that wait, in as many operations however many these are."""
    once, twice = doubled(kind, made, True, bag)
    assert twice.operations <= TWICE * once.operations, f"{twice.operations / once.operations:.2f} times the operations"


@pytest.mark.parametrize("kind", [TStrobe, GStrobe])
def test_what_arrives_together_is_asked_for_together(kind: type[Algorithm], monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each table that was inserted into, however many transactions did; one by one it is one each."""
    work = Work(monkeypatch, MemoryBag)
    asked = {(n, t): run(kind, mixed(BAGS[MemoryBag], n), t, work).questions for n in (10, 60) for t in (True, False)}
    assert asked == {(10, True): 2, (60, True): 2, (10, False): 8, (60, False): 48}
