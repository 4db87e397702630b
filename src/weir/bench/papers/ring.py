"""``weir bench ring``: the latencies of ring and star in virtual time, beside the Ring paper's own (section 4.2).

A view joins one table at each of n sources. Every message takes one unit of time and work takes none, as in the paper.
An update's latency is the time from its transaction to the commit that shows it. The paper speaks of two cases: one
node was updated, or all were (then it counts the time until all are shown, divided by the updates).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from weir.algebra.memory import MemoryBag
from weir.algorithms.base import Algorithm
from weir.algorithms.ring import Ring
from weir.algorithms.star import Star
from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.messages import Commit, Send
from weir.simulator.clock import Clock
from weir.simulator.counters import Counters
from weir.simulator.scenario import Scenario, parse

NODES = tuple(range(2, 9))


@dataclass(kw_only=True)
class Stopwatch(Counters):
    """An observer that notes when commits happen, and how often the token was sent to a node."""

    clock: Clock
    last_commit: float = 0.0
    visits: int = 0

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        super().committed(commit, view)
        self.last_commit = self.clock.now

    def sent(self, send: Send) -> None:
        super().sent(send)
        self.visits += send.to is not None


def joined(nodes: int, updated: Sequence[int]) -> Scenario:
    """n sources with a table each, joined; one insert (u1, u2, ...) at each updated source."""
    tables = [f"s{at}.t{at}" for at in range(1, nodes + 1)]
    joins = " ".join(f"JOIN {name} ON t{at}.K = t{at - 1}.K" for at, name in enumerate(tables[1:], start=2))
    return parse(
        {
            "title": f"{nodes} nodes, {len(updated)} updated",
            "view": f"CREATE MATERIALIZED VIEW v AS SELECT t1.K FROM {tables[0]} {joins}",
            "tables": {name: {"columns": "K int, V int", "rows": "(1, 0)"} for name in tables},
            "transactions": [{"name": f"u{at}", "source": f"s{at}", "changes": f"+t{at}(1, 1)"} for at in updated],
        }
    )


def run(scenario: Scenario, algorithm: type[Algorithm], when: Mapping[str, float] | None = None) -> Stopwatch:
    """One run in virtual time; a transaction that ``when`` does not name happens at 0."""
    world = scenario.begin(algorithm)
    clock = Clock(world, when=when or {})
    watch = Stopwatch(clock=clock)
    world.observers = (watch,)
    clock.run()
    return watch


def _latency(nodes: int, algorithm: type[Algorithm], at: float) -> float:
    """Of one update of the first node at a given time."""
    return run(joined(nodes, [1]), algorithm, {"u1": at}).last_commit - at


def _all(nodes: int, algorithm: type[Algorithm]) -> Stopwatch:
    """Every node updated at time 0."""
    return run(joined(nodes, range(1, nodes + 1)), algorithm)


# -- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The paper's figure for n nodes, what is measured, and why they differ where they do."""

    name: str
    formula: Callable[[int], float]
    measure: Callable[[int], float]
    reason: str = ""


_TWO_MESSAGES = "the paper counts visits of the token; in the star a visit is two messages, to the node and back"
CASES = (
    Case(
        "ring, one node updated, worst tick",
        lambda n: 2 * n,
        lambda n: max(_latency(n, Ring, float(tick)) for tick in range(n)),
    ),
    Case(
        "ring, one node updated, worst half tick",
        lambda n: 2 * n,
        lambda n: max(_latency(n, Ring, tick + 0.5) for tick in range(n)),
        "just after the token has left it takes almost 2n + 1; the paper counts from the next tick",
    ),
    Case("ring, all updated, per update", lambda n: 2, lambda n: _all(n, Ring).last_commit / n),
    Case("star, one node updated, visits", lambda n: n, lambda n: run(joined(n, [1]), Star).visits),
    Case(
        "star, one node updated, time",
        lambda n: n,
        lambda n: _latency(n, Star, 0.0),
        f"{_TWO_MESSAGES}, and a request comes first: 2n + 1",
    ),
    Case(
        "star, all updated, visits per update",
        lambda n: 2,
        lambda n: _all(n, Star).visits / n,
        "the first node's change is shown after n visits and the last one's after 2n - 1",
    ),
    Case(
        "star, all updated, time per update",
        lambda n: 2,
        lambda n: _all(n, Star).last_commit / n,
        f"{_TWO_MESSAGES}, and a request comes first: 4n - 1 for all",
    ),
)


@dataclass(frozen=True)
class RingPoint:
    """One point; ``explained`` says why formula and measurement differ, and is empty where they do not."""

    case: str
    nodes: int
    formula: float
    measured: float
    explained: str


def measure(nodes: Iterable[int] = NODES) -> list[RingPoint]:
    """Every case for every number of nodes."""
    sizes = tuple(nodes)
    return [_row(case, n) for case in CASES for n in sizes]


def _row(case: Case, nodes: int) -> RingPoint:
    formula, measured = case.formula(nodes), case.measure(nodes)
    return RingPoint(case.name, nodes, formula, measured, case.reason if measured != formula else "")


# -- what is shown ----------------------------------------------------------------------------------------------------


def document(rows: Iterable[RingPoint]) -> dict[str, list[dict[str, Any]]]:
    """What ``--json`` prints."""
    return {"rows": [asdict(row) for row in rows]}


def table(rows: Sequence[RingPoint]) -> Table:
    """A line per number of nodes, a column per case: measured / formula."""
    shown = Table(title="Latency against the number of nodes: measured / the paper's", title_justify="left")
    shown.add_column("n", justify="right")
    for name in dict.fromkeys(row.case for row in rows):
        shown.add_column(name, justify="right")
    for nodes in dict.fromkeys(row.nodes for row in rows):
        shown.add_row(str(nodes), *(f"{row.measured:.3g}/{row.formula:g}" for row in rows if row.nodes == nodes))
    return shown


def notes(rows: Iterable[RingPoint]) -> list[str]:
    """Why measurement and formula differ, case by case."""
    return [f"{case}: {text}" for case, text in dict.fromkeys((r.case, r.explained) for r in rows if r.explained)]


def shown(rows: Sequence[RingPoint], directory: Path) -> Iterator[Table | str]:
    """What the command prints."""
    yield table(rows)
    yield "\n".join(notes(rows))
    yield f"picture: {picture(rows, directory)}"


def picture(rows: Sequence[RingPoint], directory: Path) -> Path:
    """All cases in one diagram, but for the moments between the ticks."""
    cases = {case.name: case for case in CASES if "half tick" not in case.name}
    curves = [
        Curve(
            name.replace(" updated", ""),
            [(row.nodes, cases[name].formula(row.nodes)) for row in rows if row.case == name],
            [(row.nodes, row.measured) for row in rows if row.case == name],
        )
        for name in cases
    ]
    subtitle = "lines: the paper · points: measured"
    return draw(Picture("Ring and star: latency", "nodes", "units of time", curves, subtitle), directory / "ring.svg")
