"""The sequence diagram in the terminal."""

from __future__ import annotations

import pytest

from tests.simulator.scenes import THREE_SOURCES, wordy
from weir.algorithms.registry import algorithm
from weir.simulator.builtin import find
from weir.simulator.diagram import draw
from weir.simulator.run import run

EXAMPLE_2 = find("eca_example_2")


def lines_of(name: str, width: int = 100) -> list[str]:
    done = run(EXAMPLE_2, algorithm(name), EXAMPLE_2.schedules[0].steps)
    return [line.plain.rstrip() for line in draw(done, width)]


def test_the_anomaly_as_a_picture() -> None:
    """ECA Example 2 under basic, exactly as drawn, up to the costs."""
    assert lines_of("basic")[2:21] == [
        "",
        " s  warehouse view",
        " │      │       ✓   state 0: {}   ✓ s@0",
        " ●      │       │   U1: +r2(2, 3)   r2 = {(2, 3)}",
        " ├─────▶│       │   U1 arrives",
        " │◀─────┤       │   asks Q1: r1 x [(2, 3)]",
        " ●      │       │   U2: +r1(4, 2)   r1 = {(1, 2), (4, 2)}",
        " ├─────▶│       │   U2 arrives",
        " │◀─────┤       │   asks Q2: [(4, 2)] x r2",
        " ○      │       │   A1: {(1), (4)}",
        " ├─────▶│       │   A1 arrives",
        " │      ├──────▶✓   state 1: {(1), (4)}   ✓ s@2",
        " ○      │       │   A2: {(4)}",
        " ├─────▶│       │   A2 arrives",
        " │      ├──────▶✗   state 2: {(1), 2*(4)}   ✗ no source state looks like this",
        "",
        "level held  ✗ none",
        "but not     convergence: the last state is not the view at s@2: extra (4)",
        "true view   {(1), (4)}",
    ]


def test_the_end_tells_the_level_the_views_the_cost_and_the_schedule() -> None:
    """What comes under the diagram of a run that is right."""
    assert lines_of("eca")[-7:] == [
        "level held  ✓ strong",
        "but not     complete: after state 0 at s@0, U1 led to {(1)}, which was never shown",
        "true view   {(1), (4)}",
        "final view  ✓ {(1), (4)}",
        "cost        4 messages (2 questions); 2 rows sent along, 3 rows (12 bytes) answered; 3 tuples read",
        "            with indexes, 3 without; 1 commit",
        "schedule    U1; deliver s; U2; deliver s; answer s; deliver s; answer s; deliver s",
    ]


def test_a_wrong_state_is_red_and_a_right_one_green() -> None:
    """The colours of the signs in the view's lane."""
    done = run(EXAMPLE_2, algorithm("basic"), EXAMPLE_2.schedules[0].steps)
    spans = [(line.plain[span.start : span.end], span.style) for line in draw(done) for span in line.spans]
    assert {style for text, style in spans if text == "✓"} == {"green"}
    assert {style for text, style in spans if text == "✗"} == {"bold red"}


def test_an_arrow_crosses_the_lanes_between() -> None:
    """From the first of three sources to the warehouse, and back."""
    done = run(THREE_SOURCES, algorithm("basic"), THREE_SOURCES.schedules[0].steps)
    text = "\n".join(line.plain for line in draw(done))
    assert " ├────┼────┼─────▶│       │   A1 arrives" in text
    assert " │◀───┼────┼──────┤       │   asks Q1: A, B of x.r1 for (2) on B" in text
    assert "◇   a reader sees state 0: {}" in text


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("sources", [2, 3, 4])
def test_no_line_is_wider_than_the_terminal(sources: int, width: int) -> None:
    """Long names, long words and long rows are cut or wrapped; lanes stay in their columns."""
    scenario = wordy(sources)
    lines = [line.plain for line in draw(run(scenario, algorithm("copies")), width)]
    assert max(map(len, lines)) <= width
    header = next(at for at, line in enumerate(lines) if "warehouse view" in line)
    end = lines.index("", header)
    columns = [at for at, sign in enumerate(lines[header + 1]) if sign in "│✓"][: sources + 2]
    for line in lines[header + 1 : end]:
        assert all(line[column] in "│●○├┤┼✓✗◇" for column in columns), line


def test_what_does_not_fit_ends_in_an_ellipsis() -> None:
    """Four sources with long names at 80 columns: names and rows are cut."""
    lines = [line.plain for line in draw(run(wordy(4), algorithm("copies")), 80)]
    header = next(line for line in lines if "warehouse view" in line)
    assert "…" in header
    assert any(line.endswith("…") for line in lines if "│" in line)
