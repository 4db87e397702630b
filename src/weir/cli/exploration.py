"""The report on many schedules: the level on all of them, and for each level the shortest schedule that stops there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.algorithms.base import Algorithm
from weir.cli.terminal import print_json, print_lines, print_run
from weir.consistency.levels import NAMES, implies, next_above
from weir.simulator.explore import Exploration
from weir.simulator.run import run
from weir.simulator.scenario import Expectation, ListedSchedule, Scenario, write
from weir.simulator.step import Schedule
from weir.simulator.svg import write_svg


def report_exploration(
    found: Exploration, algorithm: type[Algorithm], exhaustive: bool, unchecked: bool, svg: Path | None, as_json: bool
) -> bool:
    """Prints what was found; whether it is what the scenario expects."""
    report = _Report(found, algorithm, exhaustive)
    breaking = report.counterexample
    drawn = run(found.scenario, algorithm, breaking, unchecked) if breaking is not None else None
    if svg and drawn:
        write_svg(drawn, svg)
    if as_json:
        print_json(report.outcome())
        return report.met
    print_lines(report.lines())
    if drawn:
        print_lines(["", f"Shortest schedule that is not {report.next_level}:", ""])
        print_run(drawn)
    print_lines(report.complaint())
    return report.met


class _Report:
    """An exploration beside what its scenario expects."""

    def __init__(self, found: Exploration, algorithm: type[Algorithm], exhaustive: bool) -> None:
        self.found = found
        self.name = algorithm.facts.name
        self.exhaustive = exhaustive
        self.levels = found.levels()
        self.held = min(self.levels, key=NAMES.index)
        self.next_level = next_above(self.held)
        self.expected = found.scenario.expect.get(self.name)

    @property
    def met(self) -> bool:
        """Every schedule together must hold exactly what is expected; some of them may hold more."""
        if self.expected is None or self.held == self.expected:
            return True
        return not self.exhaustive and implies(self.held, self.expected)

    @property
    def counterexample(self) -> Schedule | None:
        """The shortest schedule that holds no more than all do."""
        return self.levels[self.held] if self.next_level else None

    def outcome(self) -> dict[str, Any]:
        return {
            "scenario": self.found.scenario.title,
            "algorithm": self.name,
            "states": self.found.states,
            "schedules": self.found.schedules,
            "histories": len(self.found.histories),
            "level": self.held,
            "levels": {name: [str(step) for step in self.levels[name]] for name in NAMES if name in self.levels},
            "expected": self.expected,
            "met": self.met,
        }

    def lines(self) -> Iterator[str]:
        found, which = self.found, "every schedule" if self.exhaustive else "random schedules"
        yield f"{found.scenario.title} · {self.name} · {which}"
        yield f"{found.schedules} schedules, {found.states} states visited, {len(found.histories)} different histories"
        yield f"level held on all of them: {self.held}" + (f" (expected: {self.expected})" if self.expected else "")
        yield "shortest schedule that holds no more than"
        for name in NAMES:
            if name in self.levels:
                yield f"  {name:12} {'; '.join(map(str, self.levels[name]))}"

    def complaint(self) -> Iterator[str]:
        """What is not as expected; a level not held with a scenario file that shows it."""
        if self.met or self.expected is None:
            return
        yield f"\nNOT AS EXPECTED: {self.name} holds {self.held}, the scenario expects {self.expected}."
        if not implies(self.held, self.expected):
            yield "This scenario file shows it:\n"
            yield write(failing_scenario(self.found.scenario, self.name, self.levels[self.held], self.expected))


def failing_scenario(scenario: Scenario, name: str, steps: Schedule, level: str) -> Scenario:
    """The scenario with the schedule that fails, and what it should have led to."""
    expected = {name: Expectation(end=scenario.lattice.final_value, level=level)}
    failing = ListedSchedule(f"{name} is not {level}", steps, expected)
    return replace(scenario, schedules=(failing,), expect={name: level})
