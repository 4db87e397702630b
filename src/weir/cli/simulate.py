"""``weir simulate``: one run of a scenario drawn, or every schedule of it explored."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from weir.algebra.errors import WeirError
from weir.algorithms.base import Algorithm
from weir.algorithms.registry import algorithm as algorithm_called
from weir.cli.exploration import report_exploration
from weir.cli.terminal import outcome_of, print_json, print_lines, print_run
from weir.consistency.levels import implies
from weir.simulator.builtin import find, names
from weir.simulator.explore import every_schedule, random_schedules, run_at_random
from weir.simulator.run import FinishedRun, drive, run
from weir.simulator.scenario import ListedSchedule, Scenario
from weir.simulator.step import parse_step
from weir.simulator.svg import write_svg


@dataclass(frozen=True)
class _Wish:
    """What to simulate and how to show it."""

    scenario: Scenario
    algorithm: type[Algorithm]
    unchecked: bool
    svg: Path | None
    as_json: bool


def _list_scenarios(wanted: bool) -> None:
    if wanted:
        width = max(map(len, names()))
        print_lines(f"{name:{width}}  {find(name).title}" for name in names())
        raise typer.Exit


def simulate(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of a built-in one (--list).")],
    algorithm: Annotated[str, typer.Option("--algorithm", "-a", help="The algorithm that maintains the view.")],
    schedule: Annotated[
        str | None, typer.Option(help="A listed schedule's name, or steps: 'U1; deliver s; answer s'.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Choose the steps by lot; the seed reproduces them.")] = None,
    count: Annotated[int, typer.Option(min=1, help="With --seed: how many schedules to try.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="Explore every schedule.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the run into this SVG file as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line for programs instead of a drawing.")] = False,
    unchecked: Annotated[
        bool, typer.Option(help="Run an algorithm on a view that lacks what it needs, to see what happens.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", callback=_list_scenarios, is_eager=True, help="List the built-in scenarios.")
    ] = False,
) -> None:
    """Run a scenario under one schedule and draw it, or explore every schedule.

    Exits with 1 when the scenario's file expects something else.
    """
    if sum([every, seed is not None, schedule is not None]) > 1:
        raise WeirError("--schedule, --seed and --all exclude each other: give one of them")
    if count > 1 and seed is None:
        raise WeirError("--count needs --seed: give a number to draw the schedules from, or --all for every schedule")
    wish = _Wish(find(scenario), algorithm_called(algorithm), unchecked, svg, as_json)
    try:
        met = _explore(wish, seed, count) if every or count > 1 else _run_one(wish, schedule, seed)
    except AssertionError as problem:
        if not unchecked:
            raise
        raise WeirError(f"{algorithm} cannot run on this view even unchecked: {problem}") from None
    if not met:
        raise typer.Exit(1)


# -- many schedules --------------------------------------------------------------------------------------------------


def _explore(wish: _Wish, seed: int | None, count: int) -> bool:
    start = wish.scenario.begin(wish.algorithm, wish.unchecked)
    if seed is None:
        found = every_schedule(wish.scenario, lambda: start)
    else:
        found = random_schedules(wish.scenario, lambda: start, count, seed)
    return report_exploration(
        found, wish.algorithm, exhaustive=seed is None, unchecked=wish.unchecked, svg=wish.svg, as_json=wish.as_json
    )


# -- one schedule ----------------------------------------------------------------------------------------------------


def _run_one(wish: _Wish, schedule: str | None, seed: int | None) -> bool:
    listed = _listed(wish.scenario, schedule) if seed is None else None
    if listed is None:
        dice = random.Random(f"{seed}/0")  # the first of what --count would try
        done = drive(wish.scenario, wish.algorithm, lambda world: run_at_random(world, dice), wish.unchecked)
    else:
        done = run(wish.scenario, wish.algorithm, listed.steps, wish.unchecked)
    failures = _failures(done, listed)
    _show(wish, done, failures)
    return not failures


def _listed(scenario: Scenario, text: str | None) -> ListedSchedule:
    """The schedule of that name, or the one written out; without a text the first listed one."""
    if text is None:
        return scenario.schedules[0] if scenario.schedules else ListedSchedule("default order", ())
    for listed in scenario.schedules:
        if listed.name == text:
            return listed
    transactions = [update.name for update in scenario.updates]
    try:
        steps = tuple(parse_step(step.strip(), transactions) for step in text.split(";") if step.strip())
    except WeirError as problem:
        known = "; ".join(f"'{listed.name}'" for listed in scenario.schedules) or "none"
        raise WeirError(f"{problem}. Or give a listed schedule's name: {known}") from None
    return ListedSchedule("as given", steps)


def _failures(done: FinishedRun, listed: ListedSchedule | None) -> list[str]:
    """What the file expects of this schedule, and of every schedule, and does not get."""
    name = done.algorithm.facts.name
    failures = done.failures(listed.expect[name]) if listed and name in listed.expect else []
    promised = done.scenario.expect.get(name)
    if promised and not implies(done.level, promised):
        failures.append(f"the level is {done.level}, and the scenario expects {promised} on every schedule")
    return failures


def _show(wish: _Wish, done: FinishedRun, failures: list[str]) -> None:
    if wish.svg:
        write_svg(done, wish.svg)
    if wish.as_json:
        print_json({"scenario": wish.scenario.title, **outcome_of(done), "failures": failures})
        return
    print_run(done)
    print_lines(f"NOT AS EXPECTED: {failure}" for failure in failures)
