"""The sequence diagram as SVG: well-formed, and no text over another, measured from the document itself."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path

import pytest

from tests.simulator.scenes import THREE_SOURCES, wordy
from weir.algebra.errors import WeirError
from weir.algorithms.registry import algorithm
from weir.simulator.builtin import find, names
from weir.simulator.canvas import Box
from weir.simulator.run import FinishedRun, run
from weir.simulator.svg import draw_svg, write_svg

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_ADVANCE = 0.61  # of the common fixed-width faces: a character's width over the font's size


def drawn(done: FinishedRun) -> ElementTree.Element:
    return ElementTree.fromstring(draw_svg(done))


def example(name: str, algorithm_name: str) -> FinishedRun:
    scenario = find(name)
    return run(scenario, algorithm(algorithm_name), scenario.schedules[0].steps if scenario.schedules else ())


def text_boxes(root: ElementTree.Element) -> list[tuple[str, Box]]:
    """Every text with the rectangle that it fills."""
    boxes = []
    for element in root.iter(f"{SVG}text"):
        text, size = element.text or "", float(element.attrib["font-size"])
        x, y, width = float(element.attrib["x"]), float(element.attrib["y"]), len(text) * size * WIDEST_ADVANCE
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[element.attrib["text-anchor"]] * width
        boxes.append((text, Box(left, y - 0.8 * size, left + width, y + 0.25 * size)))
    return boxes


def assert_readable(root: ElementTree.Element) -> None:
    boxes = text_boxes(root)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text, box in boxes:
        assert 0 <= box.left < box.right <= width, text
        assert 0 <= box.top < box.bottom <= height, text
    for (one, box), (other, place) in combinations(boxes, 2):
        assert not box.overlaps(place), f"'{one}' is over '{other}'"


def drawable() -> list[tuple[str, str]]:
    """Every built-in scenario with the algorithms that its first schedule, or else the whole file, speaks of."""
    scenarios = {name: find(name) for name in names()}
    spoken_of = {name: s.schedules[0].expect if s.schedules else s.expect for name, s in scenarios.items()}
    return [(name, algorithm_name) for name, expected in spoken_of.items() for algorithm_name in expected]


@pytest.mark.parametrize(("name", "algorithm_name"), drawable())
def test_no_text_covers_another_in_a_built_in_scenario(name: str, algorithm_name: str) -> None:
    """All texts lie apart from each other and inside the picture."""
    assert_readable(drawn(example(name, algorithm_name)))


@pytest.mark.parametrize("sources", [2, 3, 4])
@pytest.mark.parametrize("algorithm_name", ["basic", "copies"])
def test_no_text_covers_another_with_long_texts_and_many_sources(sources: int, algorithm_name: str) -> None:
    """Long names, words and rows wrap, and end in … where they would not."""
    root = drawn(run(wordy(sources), algorithm(algorithm_name)))
    assert_readable(root)
    assert any("…" in text for text, _ in text_boxes(root))


def test_what_means_something_in_xml_is_only_text() -> None:
    """A title with < and & comes out as it went in."""
    root = drawn(run(wordy(2), algorithm("copies")))
    assert root.findtext(f"{SVG}title") == "<long> & wordy · copies"


def test_messages_slant_down_from_where_they_left() -> None:
    """Every arrow between sources and warehouse goes down, and there is one for each message."""
    done = run(THREE_SOURCES, algorithm("basic"), THREE_SOURCES.schedules[0].steps)
    arrows = [
        (line.attrib["class"].removesuffix("-line"), float(line.attrib["y2"]) - float(line.attrib["y1"]))
        for line in drawn(done).iter(f"{SVG}line")
        if line.attrib["class"].startswith(("update", "question", "answer"))
    ]
    assert sorted(kind for kind, _ in arrows) == ["answer"] * 4 + ["question"] * 4 + ["update"] * 2
    assert all(fall > 0 for _, fall in arrows)


def test_a_wrong_state_is_marked_wrong() -> None:
    """Example 2 under basic has two right states and one that never was; under eca all are right."""
    root = drawn(example("eca_example_2", "basic"))
    marks = [circle.attrib["class"] for circle in root.iter(f"{SVG}circle") if circle.attrib["r"] == "8"]
    assert marks == ["right", "right", "wrong"]
    assert "no source state looks like this" in [text for text, _ in text_boxes(root)]
    assert "no source state looks like this" not in draw_svg(example("eca_example_2", "eca"))


def test_a_drawing_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(WeirError, match=r"cannot write the drawing to .*nowhere"):
        write_svg(example("eca_example_1", "eca"), tmp_path / "nowhere" / "run.svg")
