"""The world of the ECA paper's Example 6, with exactly the numbers its section 6 assumes.

``r1(W, X)``, ``r2(X, Y)``, ``r3(Y, Z)`` of C tuples each. Join value number g occurs J times as X in r1 and r2 and
J times as Y in r2 and r3, so every join factor is J. r2 holds the pair (g, g) J times: the paper takes it that an
update of r1 and one of r3 still meet J tuples of r2, and only a bag with duplicates does that.

Per join value the J values of W and the J of Z are ordered (written for J = 4)

    z w z w | w z w z

so that W > Z holds for exactly half of the J x J pairs. All updates are on join value 0, since the paper's updates
join each other. They go round r1, r2, r3, and what three of them do the next three undo, so that C and J stay what
they are:

- even blocks of six: insert into r1, delete from r2, insert into r3, then the reverse. The new tuples lie in the
  middle (``|``) and so pass with half of the others; W lies below Z in one block and above it in the next, so that
  they pass with each other half of the time.
- odd blocks of six: delete from r1, insert into r2, delete from r3, then the reverse, with the tuples next to the
  middle.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.algebra.catalog import Relation, Table
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema
from weir.messages import Change, Update
from weir.simulator.scenario import Scenario

SOURCE = "s"
R1, R2, R3 = (Relation(SOURCE, name) for name in ("r1", "r2", "r3"))
TABLES = {
    R1: Table(R1, Schema.parse("W smallint, X int")),
    R2: Table(R2, Schema.parse("X int, Y int")),
    R3: Table(R3, Schema.parse("Y int, Z smallint")),
}
VIEW = """CREATE MATERIALIZED VIEW example6 AS
SELECT r1.W, r3.Z FROM s.r1 JOIN s.r2 ON r1.X = r2.X JOIN s.r3 ON r2.Y = r3.Y WHERE r1.W > r3.Z"""

_STEP, _HALF_STEP, _NEAR_MIDDLE = 1000, 500, 100  # distances between values of W and Z; join values shift them by less


def example_6(cardinality: int = 100, join_factor: int = 4, updates: int = 3) -> Scenario:
    """The scenario with so many tuples a relation, so many per join value, and so many updates."""
    if join_factor % 2 or cardinality % join_factor or cardinality < join_factor:
        raise WeirError(
            f"{cardinality} tuples with {join_factor} per join value cannot be laid out: "
            "the join factor must be even and divide the number of tuples"
        )
    rows = {
        relation: MemoryBag.of(TABLES[relation].schema, _rows(relation, cardinality, join_factor))
        for relation in TABLES
    }
    script = tuple(_update(number, join_factor) for number in range(updates))
    return Scenario(f"Example 6 with C = {cardinality}, J = {join_factor}", VIEW, TABLES, rows, script)


def _rows(relation: Relation, cardinality: int, join_factor: int) -> Iterator[Row]:
    for group in range(cardinality // join_factor):
        for at in range(join_factor):
            yield _row(relation, group, _value(relation, at, join_factor))


def _row(relation: Relation, group: int, value: int) -> Row:
    """A row of one join value; ``value`` is its W or Z."""
    return {R1: (value + group, group), R2: (group, group), R3: (group, value + group)}[relation]


def _value(relation: Relation, at: int, join_factor: int) -> int:
    """The W or Z in place ``at`` of its join value: before the middle Z comes first in each pair, after it W does."""
    half = join_factor // 2
    first = relation == (R3 if at < half else R1)
    outward = at - half if at < half else at - half + 1  # ..., -2, -1 | 1, 2, ...
    before = outward * _STEP if at < half else outward * _STEP - _HALF_STEP
    return before if first else before + _HALF_STEP


def _update(number: int, join_factor: int) -> Update:
    block, at = divmod(number, 6)
    relation = (R1, R2, R3)[at % 3]
    inserts = (at < 3) ^ (relation == R2) ^ (block % 2 == 1)
    bag = MemoryBag.of(TABLES[relation].schema, [_row(relation, 0, _changed_value(relation, block, join_factor))])
    change = Change(relation, inserted=bag) if inserts else Change(relation, deleted=bag)
    return Update(SOURCE, number + 1, (change,), f"U{number + 1}")


def _changed_value(relation: Relation, block: int, join_factor: int) -> int:
    """The W or Z of the tuple that a block of six inserts and deletes, or deletes and inserts again."""
    turn, half = block // 2, join_factor // 2
    below_first = turn % 2 == 0
    if block % 2:
        return _value(relation, half - 1 if below_first else half, join_factor)
    if relation == R3:
        return turn
    return -_NEAR_MIDDLE - turn if below_first else _NEAR_MIDDLE + turn
