"""Shrinking and the order of states, without any database."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weir.proving.fuzz.case import FuzzCase, FuzzColumn, FuzzTable
from weir.proving.fuzz.drawing import draw_case
from weir.proving.fuzz.expected import SeenRows, StateVector, misplaced
from weir.proving.fuzz.shrinking import shrunk
from weir.proving.fuzz.statements import references, without_column
from weir.proving.fuzz.trial import WRONG, FuzzFinding


def test_what_does_not_matter_goes() -> None:
    """A case that fails whenever a view reads the first table: one view, one table, no change is left of it."""
    case = draw_case(3)
    wanted = case.tables[0].place

    def fails(candidate: FuzzCase) -> FuzzFinding | None:
        reads = any(wanted in view.tables for view in candidate.views)
        return FuzzFinding(WRONG, "v", 1, "it does") if reads else None

    case = replace(case, views=tuple(view for view in draw_case(3).views if wanted in view.tables))
    assert fails(case)
    small = shrunk(case, fails, most=500)
    assert fails(small)
    assert [view.tables for view in small.views] == [{wanted}]
    assert ([table.place for table in small.tables], small.rounds) == ([wanted], ())
    assert (len(small.tables[0].columns), small.tables[0].rows) == (1, ())


def test_attempts_are_limited() -> None:
    assert shrunk(draw_case(3), lambda _: FuzzFinding(WRONG, "v", 1, ""), most=0) == draw_case(3)


TABLE = FuzzTable("s", "a b", (FuzzColumn("id", "int", "int"), FuzzColumn("x", "text", "string")))


def test_columns_leave_statements() -> None:
    upsert = """INSERT INTO "a b" VALUES (1, 'it''s (2, 3)') ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id\""""
    assert without_column(upsert, "postgres", TABLE, 1) == (
        """INSERT INTO "a b" VALUES (1) ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id\""""
    )
    assert without_column("REPLACE INTO `a b` VALUES (1, 'x\\\\y')", "mariadb", TABLE, 0) == (
        "REPLACE INTO `a b` VALUES ('x\\\\y')"
    )
    assert without_column('UPDATE "a b" SET "x" = 1', "sqlite", TABLE, 1) == 'UPDATE "a b" SET "x" = 1'


def test_a_statement_names_its_table() -> None:
    other = replace(TABLE, name="a")
    for verb in ("INSERT INTO", "REPLACE INTO", "UPDATE", "DELETE FROM", "TRUNCATE TABLE"):
        assert references(f'{verb} "a b"', TABLE)
        assert not references(f'{verb} "a b"', other)


# -- states in order ---------------------------------------------------------------------------------------------------


def at(vector: StateVector) -> SeenRows:
    """Two sources: each transaction of the first adds a row 1, each of the second a row 2."""
    return Counter({(1,): vector[0], (2,): vector[1]}) + Counter()


START, END = (0, 0), (2, 1)
WAY = [at(vector) for vector in ((0, 0), (1, 0), (1, 1), (2, 1))]


def test_a_way_through_all_states_is_complete() -> None:
    assert misplaced(WAY, START, END, at, complete=True) is None
    assert misplaced([WAY[0], WAY[0], *WAY[1:], WAY[-1]], START, END, at, complete=True) is None


def test_a_skipped_state_is_not() -> None:
    """But it is no fault of a strong view."""
    skipped = [WAY[0], WAY[2], WAY[3]]
    assert misplaced(skipped, START, END, at, complete=True) == 1
    assert misplaced(skipped, START, END, at, complete=False) is None


def test_a_state_that_never_was_or_comes_back_is_wrong_at_every_level() -> None:
    strange = [WAY[0], Counter({(3,): 1}), WAY[3]]
    backwards = [WAY[0], WAY[2], WAY[1], WAY[3]]
    for complete in (True, False):
        assert misplaced(strange, START, END, at, complete) == 1
    assert misplaced(backwards, START, END, at, complete=False) == 2


def test_the_last_state_must_be_the_end() -> None:
    assert misplaced(WAY[:-1], START, END, at, complete=True) == 2
