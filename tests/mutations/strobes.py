"""Planted bugs in the Strobe family."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from tests.mutations.mutation import Case, Mutation
from weir.algebra.query import SubUpdate, sub_updates
from weir.algorithms import c_strobe
from weir.algorithms.g_strobe import GStrobe
from weir.algorithms.keys import together
from weir.algorithms.strobe import Strobe
from weir.algorithms.t_strobe import TStrobe
from weir.messages import Action, Add, AddMissing, Effect, Update


class AppliesWhileOpen(Strobe):
    def _may_apply(self) -> bool:
        return True


class ForgetsPending(Strobe):
    """An answer loses what is deleted after it came, as everything in the action list does, and nothing more."""

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        self.pending[key] = len(self.deletes)
        yield from super().on_finished(key, result)


class ForgetsTheActionList(Strobe):
    """Deletes that arrive while a question is open are not in the action list."""

    def _actions(self) -> Iterator[Action]:
        asked = min((place for place, _ in self.answers), default=len(self.deletes))
        yield from together(self.deletes[:asked])
        yield from (action for action in super()._actions() if isinstance(action, AddMissing))


class TakesChangesOneByOne(TStrobe):
    def on_update(self, update: Update) -> Iterator[Effect]:
        yield from Strobe.on_update(self, update)


class DoesNotWaitForParts(GStrobe):
    def _may_apply(self) -> bool:
        return not self.pending


def every_later_insert(wide: Any, at: int, waiting: Any) -> Iterator[SubUpdate]:
    """Without the look at earlier deletes of the same tuple."""
    for number, update in waiting.numbered:
        if number > at:
            yield from sub_updates(wide, [(c.relation, c.inserted) for c in update.changes if c.inserted is not None])


_compensations = c_strobe._compensations


def first_round_only(wide: Any, query: Any, since: Any, waiting: Any, grouped: bool) -> Any:
    return _compensations(wide, query, since, waiting, grouped) if since[1] == c_strobe.LAST else []


def last_delete_only(wide: Any, since: Any, waiting: Any) -> Iterator[SubUpdate]:
    deletes = c_strobe._deletes(wide, waiting.numbered)
    last = {(part.term, part.slot): part for place, part in deletes if place > since}
    yield from last.values()


PATCHED = "weir.algorithms.c_strobe."
MUTATIONS = [
    Mutation(
        "strobe-pending-ignored",
        "deletes that arrived while a question was open stay in its answer",
        "strobe",
        Case("single-update", seed=13, updates=3),
        ForgetsPending,
    ),
    Mutation(
        "strobe-duplicates",
        "a tuple that the view holds is added once more",
        "strobe",
        Case("single-update", seed=2, sources=2),
        patches={"weir.algorithms.strobe.AddMissing": Add},
    ),
    Mutation(
        "strobe-applies-early",
        "the action list is applied while a question is open",
        "strobe",
        Case("single-update", seed=2, sources=2),
        AppliesWhileOpen,
    ),
    Mutation(
        "strobe-no-key-delete",
        "a delete during a question is only remembered for its answer",
        "strobe",
        Case("single-update", seed=11),
        ForgetsTheActionList,
    ),
    Mutation(
        "t-strobe-one-by-one",
        "a transaction's changes are shown one by one",
        "t-strobe",
        Case("strobe_delete_then_insert"),
        TakesChangesOneByOne,
    ),
    Mutation(
        "g-strobe-in-parts",
        "a global transaction is shown before all its parts are in",
        "g-strobe",
        Case("global", seed=2, sources=2),
        DoesNotWaitForParts,
    ),
    Mutation(
        "c-strobe-keeps-inserts",
        "later inserts that an answer has seen are not taken out",
        "c-strobe",
        Case("single-update", seed=2, sources=2),
        patches={PATCHED + "_shown_too_early": lambda wide, at, waiting: ()},
    ),
    Mutation(
        "c-strobe-earlier-delete",
        "a tuple is taken out though it was there before, deleted in between",
        "c-strobe",
        Case("c_strobe_back_again"),
        patches={PATCHED + "_shown_too_early": every_later_insert},
    ),
    Mutation(
        "c-strobe-no-compensation",
        "tuples hidden by later deletes are not asked for",
        "c-strobe",
        Case("single-update", seed=26),
        patches={PATCHED + "_compensations": lambda *arguments: []},
    ),
    Mutation(
        "c-strobe-once",
        "the answer to a compensating question is not compensated itself",
        "c-strobe",
        Case("c_strobe_two_deletes"),
        patches={PATCHED + "_compensations": first_round_only},
    ),
    Mutation(
        "c-strobe-grouped-misses",
        "of several deletes of a table only the last is asked for",
        "c-strobe",
        Case("single-update", seed=2, updates=4),
        patches={PATCHED + "_together": last_delete_only},
        options={"grouped": True},
    ),
    Mutation(
        "c-strobe-wide-rows",
        "rows that differ where the view does not look count as different",
        "c-strobe",
        Case("c_strobe_unseen_column"),
        patches={PATCHED + "narrowed": lambda view, update: update},
    ),
    Mutation(
        "c-t-strobe-one-by-one",
        "a transaction's changes are shown one by one",
        "c-t-strobe",
        Case("strobe_delete_then_insert"),
        patches={"weir.algorithms.c_t_strobe.CTStrobe._changes": c_strobe.CStrobe._changes},
    ),
]
