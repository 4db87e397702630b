"""The trace of a run: every event, with its words and with the event at which a message had left."""

from __future__ import annotations

from tests.simulator.scenes import THREE_SOURCES
from weir.algorithms.registry import algorithm
from weir.simulator.builtin import find
from weir.simulator.run import FinishedRun, run
from weir.simulator.trace import ANSWERED, ASKED, DELIVERED, RAN


def run_example(name: str, algorithm_name: str) -> FinishedRun:
    scenario = find(name)
    return run(scenario, algorithm(algorithm_name), scenario.schedules[0].steps)


def test_every_event_is_told_in_order() -> None:
    """ECA Example 2 under basic: the paper's numbered list of events, to the wrong end."""
    assert [str(event) for event in run_example("eca_example_2", "basic").events] == [
        "ran s U1: +r2(2, 3)",
        "delivered s U1: +r2(2, 3)",
        "asked s Q1: r1 x [(2, 3)]",
        "ran s U2: +r1(4, 2)",
        "delivered s U2: +r1(4, 2)",
        "asked s Q2: [(4, 2)] x r2",
        "answered s A1: {(1), (4)}",
        "delivered s A1: {(1), (4)}",
        "committed state 1 {(1), (4)}",
        "answered s A2: {(4)}",
        "delivered s A2: {(4)}",
        "committed state 2 {(1), 2*(4)}",
    ]


def test_a_message_arrives_after_it_left_and_is_the_same() -> None:
    """Updates leave where they ran, answers where they were worked out, questions where they were asked."""
    events = run(THREE_SOURCES, algorithm("basic"), THREE_SOURCES.schedules[0].steps).events
    arrivals = [(number, event, event.sent) for number, event in enumerate(events) if event.sent is not None]
    assert len(arrivals) == 2 + 2 * 4  # two updates, and four questions with their answers
    for number, event, left in arrivals:
        sent = events[left]
        assert left < number
        assert event.source == sent.source
        if event.kind == ANSWERED:
            assert (sent.kind, sent.name[1:]) == (ASKED, event.name[1:])
        else:
            assert event.kind == DELIVERED
            assert sent.kind in (RAN, ANSWERED)
            assert (sent.name, sent.text) == (event.name, event.text)


def test_a_transaction_shows_its_tables_after_it() -> None:
    """The tables that it changed, and no others."""
    ran = [event for event in run_example("eca_example_2", "eca").events if event.kind == RAN]
    tables = [{str(relation): str(bag) for relation, bag in event.tables.items()} for event in ran]
    assert tables == [{"s.r2": "(2, 3)"}, {"s.r1": "(1, 2), (4, 2)"}]


def test_a_reader_sees_the_state_of_its_moment() -> None:
    """A read is an event with the number of the state it saw."""
    events = run(THREE_SOURCES, algorithm("basic"), THREE_SOURCES.schedules[0].steps).events
    assert [str(event) for event in events if event.kind == "read"] == ["read state 0 {}"]


def test_a_run_says_where_a_state_stands_and_what_is_missing() -> None:
    """A valid state has its vectors, a wrong one none; the shortfall explains the next level."""
    wrong, right = run_example("eca_example_2", "basic"), run_example("eca_example_2", "eca")
    assert [wrong.places(number) for number in range(3)] == [("s@0",), ("s@2",), ()]
    assert (wrong.level, right.level) == ("none", "strong")
    assert wrong.shortfall() == ("convergence", "the last state is not the view at s@2: extra (4)")
    assert right.shortfall() == ("complete", "after state 0 at s@0, U1 led to {(1)}, which was never shown")
    assert run_example("eca_example_2", "lca").shortfall() is None


def test_a_state_stands_first_where_the_verdict_places_it() -> None:
    """The view of the last state looks like the first one's, but the verdict places it at the end."""
    done = run(THREE_SOURCES, algorithm("copies"), THREE_SOURCES.schedules[0].steps[:2])
    assert [done.places(number)[0] for number in range(3)] == ["x@0 y@0 z@0", "x@0 y@1 z@0", "x@1 y@1 z@0"]
