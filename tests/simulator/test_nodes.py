"""Nodes in the simulated world: how their messages travel, are drawn, and are written in a schedule."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.algorithms.token_scenarios import named
from weir.algebra.errors import WeirError
from weir.algorithms.registry import ALGORITHMS
from weir.algorithms.ring import Ring
from weir.algorithms.star import Star
from weir.algorithms.token import TokenRequest
from weir.simulator.diagram import draw
from weir.simulator.run import run
from weir.simulator.step import ANSWER, Step, parse_step
from weir.simulator.svg import draw_svg
from weir.simulator.trace import DELIVERED, RECEIVED


def test_a_trace_tells_where_a_nodes_message_came_from() -> None:
    """In the ring the token comes from the node before; in the star always from the warehouse."""
    ring = [event for event in run(named("inserts"), Ring).events if event.kind == RECEIVED]
    assert [(event.sender, event.source) for event in ring[:4]] == [("", "x"), ("x", "y"), ("y", "z"), ("z", "x")]
    star = [event for event in run(named("inserts"), Star).events if event.kind == RECEIVED]
    assert {event.sender for event in star} == {""}


def test_every_message_left_before_it_arrived() -> None:
    """All but the ring's first token, which is there from the beginning."""
    for algorithm in (Ring, Star):
        events = run(named("inserts"), algorithm).events
        arrivals = [(at, event.sent) for at, event in enumerate(events) if event.kind in (RECEIVED, DELIVERED)]
        assert all(sent is not None and sent < at for at, sent in arrivals[algorithm is Ring :])


@pytest.mark.parametrize("name", ["ring", "star", "multi-ring"])
def test_runs_with_nodes_are_drawn(name: str) -> None:
    """In the terminal and as an SVG, with the tokens named."""
    told = run(named("modifications"), ALGORITHMS[name])
    assert any("token" in line.plain for line in draw(told))
    assert ElementTree.fromstring(draw_svg(told)).tag.endswith("svg")


def test_a_source_with_a_node_tells_the_warehouse_nothing_else() -> None:
    """Its transaction goes to the node; what the warehouse gets is what the node sends."""
    world = named("inserts").begin(Star)
    world.take(Step("run", "U1"))
    assert world.channels["x"] == (TokenRequest("x"),)


def test_any_message_of_an_inbox_can_be_next_where_channels_reorder() -> None:
    """It is written with its place; a place without a message is refused."""
    assert parse_step("answer x 2", []) == Step(ANSWER, "x", 1)
    with pytest.raises(WeirError, match="source x has no question number 2"):
        named("inserts", "reorder").begin(Ring).take(Step(ANSWER, "x", 1))
