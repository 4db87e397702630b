"""``weir demo``: the anomaly that everything here is about, going wrong and then right, in two pictures."""

from __future__ import annotations

from typing import Annotated

import typer

from weir.algorithms.registry import algorithm
from weir.cli.terminal import outcome_of, print_json, print_lines, print_run
from weir.simulator.builtin import find
from weir.simulator.run import Run, run

_SCENARIO = "eca_example_2"

_BEFORE = """\
A warehouse keeps a view over two tables, r1 and r2, of a database that it can only ask and listen to.
Two rows are inserted there, one after the other. For each the warehouse asks what it adds to the view."""

_WRONG = """\
What went wrong: the source answered the first question after the second insert. So the first answer
already holds what the second insert adds, and the second answer brings it once more: (4) is counted
twice. No state of the source ever looked like that, and nothing will ever mend it. No message was lost
and none overtook another; the source simply went on."""

_AGAIN = "The same inserts in the same order, with compensation:"

_RIGHT = """\
What was done about it: when the second insert arrives, the warehouse knows that its first question is
still open and will see that insert too. So it takes the double part back: here without asking, since it
knows both rows. And it shows the view only when no question is open."""

_NEXT = """\
Try next:
  weir simulate --list                                         the examples that can be run
  weir simulate eca_example_2 --algorithm basic --all          every order of events, the shortest that fails
  weir simulate eca_example_2 --algorithm lca --svg run.svg    an algorithm that skips no state, as a picture"""


def demo(as_json: Annotated[bool, typer.Option("--json", help="One line for programs.")] = False) -> None:
    """Show an update anomaly, and the same run kept right by compensation."""
    scenario = find(_SCENARIO)
    wrong, right = (run(scenario, algorithm(name), scenario.schedules[0].steps) for name in ("basic", "eca"))
    if as_json:
        print_json({each.algorithm.facts.name: outcome_of(each) for each in (wrong, right)})
        return
    print_lines([_BEFORE, ""])
    print_run(wrong)
    print_lines(["", _WRONG, "", _AGAIN, ""])
    print_run(right)
    print_lines(["", _RIGHT, "", _outcome(wrong), _outcome(right), "", _NEXT])


def _outcome(run: Run) -> str:
    views = f"ends with {{{run.final}}}, the true view is {{{run.expected}}}"
    return f"{run.algorithm.facts.name:6}{views}; level held: {run.level}"
