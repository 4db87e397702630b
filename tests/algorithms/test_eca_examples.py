"""The ECA paper's examples, step by step: queries sent, answers, COLLECT, view.

The steps are taken as the paper lists them. Where a query has a term whose slots are all bound, the warehouse evaluates
it itself and never sends it; the paper's answer is then the source's answer and that local part together, which is what
``collected`` shows.
"""

from __future__ import annotations

from weir.algebra.bag import total
from weir.algebra.memory import MemoryBag
from weir.algorithms.eca import Eca
from weir.algorithms.eca_key import EcaKey
from weir.algorithms.registry import algorithm
from weir.messages import Add, Answer, Ask, apply_actions
from weir.simulator.builtin import find
from weir.simulator.literals import parse_rows
from weir.simulator.step import Step, parse_step
from weir.simulator.world import World


class Play:
    """One scenario under one algorithm, a step at a time."""

    def __init__(self, scenario: str, name: str) -> None:
        self.scenario = find(scenario)
        self.world: World = self.scenario.begin(algorithm(name))

    def take(self, *steps: str) -> Play:
        names = [update.name for update in self.scenario.updates]
        for step in steps:
            self.world.take(parse_step(step, names))
        return self

    def happen(self, *updates: str) -> Play:
        """Each update runs and its notification reaches the warehouse."""
        for update in updates:
            self.take(update, "deliver s")
        return self

    @property
    def asked(self) -> list[str]:
        """The questions waiting at the source, oldest first."""
        return [str(ask) for ask in self.world.inboxes["s"]]

    def answer(self) -> str:
        """The source answers its oldest question, and the answer reaches the warehouse."""
        self.world.take(Step("answer", "s"))
        message = self.world.channels["s"][-1]
        assert isinstance(message, Answer)
        self.world.take(Step("deliver", "s"))
        return ", ".join(str(bag) for bag in message.bags)

    @property
    def collected(self) -> str:
        """COLLECT of ECA: what has gathered for the view."""
        machine = self.world.algorithm
        assert isinstance(machine, Eca)
        bags = [action.delta for action in machine.collected if isinstance(action, Add)]
        return str(total(*bags)) if bags else ""

    @property
    def working_copy(self) -> str:
        """COLLECT of ECA-Key: the view as it will be."""
        machine = self.world.algorithm
        assert isinstance(machine, EcaKey)
        return str(apply_actions(self.world.view, tuple(machine.collected)))

    @property
    def view(self) -> str:
        return str(self.world.view)

    def bag(self, rows: str) -> MemoryBag:
        return parse_rows(rows, self.world.view.schema)


def test_example_1_an_update_alone_is_maintained_right() -> None:
    """One update, no concurrency: the view gets its second 1."""
    play = Play("eca_example_1", "basic").happen("U1")
    assert play.asked == ["Q1: r1 x [(2, 3)]"]
    assert play.view == "(1)"
    assert play.answer() == "(1)"
    assert play.view == "2*(1)"


def test_example_2_basic_counts_4_twice() -> None:
    """Both answers see the tuple that joins the two updates."""
    play = Play("eca_example_2", "basic").happen("U1", "U2")
    assert play.asked == ["Q1: r1 x [(2, 3)]", "Q2: [(4, 2)] x r2"]
    assert play.answer() == "(1), (4)"
    assert play.view == "(1), (4)"
    assert play.answer() == "(4)"
    assert play.view == "(1), 2*(4)"


def test_example_2_eca_compensates() -> None:
    """The overlap of the two updates is taken back by a fully bound term, here at the warehouse."""
    play = Play("eca_example_2", "eca").happen("U1", "U2")
    assert play.asked == ["Q1: r1 x [(2, 3)]", "Q2: [(4, 2)] x r2"]
    assert play.collected == "-(4)"  # the term -[4,2] x [2,3] of Q2, never sent
    assert play.answer() == "(1), (4)"
    assert (play.collected, play.view) == ("(1)", "")
    assert play.answer() == "(4)"
    assert play.view == "(1), (4)"


def test_example_3_basic_misses_a_delete() -> None:
    """Neither answer sees the tuple that both deletes should have removed."""
    play = Play("eca_example_3", "basic").happen("U1", "U2")
    assert play.asked == ["Q1: [-(1, 2)] x r2", "Q2: r1 x [-(2, 3)]"]
    assert (play.answer(), play.answer(), play.view) == ("", "", "(1, 3)")


def test_example_3_eca_removes_it() -> None:
    """The compensation of the second query is the missing delete."""
    play = Play("eca_example_3", "eca").happen("U1", "U2")
    assert (play.answer(), play.answer(), play.view) == ("", "", "")


def test_example_4_three_inserts_before_any_answer() -> None:
    """Q3 has the terms V<U3>, -Q1<U3> and -Q2<U3>; COLLECT goes through {4} and {1, 4}."""
    play = Play("eca_example_4", "eca").happen("U1", "U2")
    assert play.asked == ["Q1: [(4, 2)] x r2 x r3", "Q2: r1 x r2 x [(5, 3)] -[(4, 2)] x r2 x [(5, 3)]"]
    play.happen("U3")
    assert play.asked[2] == "Q3: r1 x [(2, 5)] x r3 -[(4, 2)] x [(2, 5)] x r3 -r1 x [(2, 5)] x [(5, 3)]"
    local = play.collected
    assert local == "(4)"  # +[4,2] x [2,5] x [5,3], the bound part of -Q2<U3>
    assert play.answer() == "(4)"
    assert play.answer() == "(1)"
    assert (play.collected, play.view) == ("(1), 2*(4)", "")
    last = play.answer()
    assert play.bag(local) + play.bag(last) == play.bag("")  # the paper's A3
    assert play.view == "(1), (4)"


def test_example_5_eca_key() -> None:
    """A delete is done at once on COLLECT, a duplicate is not added, and the view waits for both answers."""
    play = Play("eca_example_5", "eca-key")
    assert (play.view, play.working_copy) == ("(1, 3)", "(1, 3)")
    play.happen("U1", "U2")
    assert play.asked == ["Q1: r1 x [(2, 4)]", "Q2: [(3, 2)] x r2"]
    play.happen("U3")
    assert play.asked == ["Q1: r1 x [(2, 4)]", "Q2: [(3, 2)] x r2"]  # no question for a delete
    assert (play.working_copy, play.view) == ("", "(1, 3)")
    assert play.answer() == "(3, 4)"
    assert (play.working_copy, play.view) == ("(3, 4)", "(1, 3)")
    assert play.answer() == "(3, 3), (3, 4)"
    assert play.view == "(3, 3), (3, 4)"


def test_example_7_an_answer_before_the_third_update() -> None:
    """As example 4, but Q1 is answered first, so nothing of it needs to be taken back."""
    play = Play("eca_example_7", "eca").happen("U1", "U2")
    assert play.answer() == ""
    play.happen("U3")
    assert play.asked[-1] == "Q3: r1 x [(2, 5)] x r3 -r1 x [(2, 5)] x [(5, 3)]"
    assert play.answer() == "(1)"
    local = play.bag("(4)")
    assert local + play.bag(play.answer()) == play.bag("(4)")  # the paper's A3
    assert play.view == "(1), (4)"


def test_example_8_two_deletes() -> None:
    """The second query brings both deletions: A2 = {-4, -1}."""
    play = Play("eca_example_8", "eca").happen("U1", "U2")
    assert play.asked == ["Q1: [-(4, 2)] x r2", "Q2: r1 x [-(2, 3)]"]
    local = play.collected
    assert play.answer() == ""
    last = play.answer()
    assert play.bag(local) + play.bag(last) == play.bag("-(4) -(1)")
    assert play.view == ""


def test_example_9_an_insert_after_a_delete() -> None:
    """A1 = {-4} is taken back by the insert's query: A2 = {1, 4}."""
    play = Play("eca_example_9", "eca").happen("U1", "U2")
    local = play.collected
    assert play.answer() == "-(4)"
    last = play.answer()
    assert play.bag(local) + play.bag(last) == play.bag("(1) (4)")
    assert play.view == "(1)"


def test_the_queries_of_lca_are_those_of_eca_split_by_update() -> None:
    """Example 4 under LCA: the third message has one part per update, and all three states are shown in order."""
    play = Play("eca_example_4", "lca").happen("U1", "U2", "U3")
    third = play.world.inboxes["s"][2]
    assert isinstance(third, Ask)
    assert len(third.questions) == 3
    for _ in range(3):
        play.answer()
    assert [str(state) for state in play.world.states] == ["", "", "", "(1), (4)"]
