"""``weir algorithms``: what there is, what it needs and costs, what it promises, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weir.algorithms.base import SCENARIOS, Facts
from weir.algorithms.measured import measured
from weir.algorithms.registry import ALGORITHMS
from weir.cli.terminal import UNKNOWN_WIDTH, print_json


def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document for programs.")] = False,
) -> None:
    """List the algorithms: paper, needs, messages, space, and the level promised and measured per scenario."""
    entries = [entry(cls.facts) for cls in ALGORITHMS.values()]
    if as_json:
        print_json({"rows": entries})
        return
    console = Console()
    if not console.is_terminal:
        console.width = max(UNKNOWN_WIDTH, 160)
    console.print(_table(entries))
    console.print("Levels: promised by the paper / measured by weir spectrum, for " + ", ".join(SCENARIOS) + ".")


def entry(facts: Facts) -> dict[str, Any]:
    """An algorithm for programs."""
    return {
        "number": facts.number,
        "name": facts.name,
        "paper": facts.paper,
        "needs": [need.name for need in facts.needs],
        "messages": facts.messages,
        "space": facts.space,
        "claims": dict(facts.claims),
        "measured": dict(measured().get(facts.name, {})),
    }


def _table(entries: list[dict[str, Any]]) -> Table:
    table = Table(show_lines=False)
    for name in ("", "name", "paper", "needs", "messages", *SCENARIOS):
        table.add_column(name, justify="right" if not name else "left")
    for item in entries:
        levels = (_levels(item["claims"], item["measured"], scenario) for scenario in SCENARIOS)
        needs = ", ".join(item["needs"]) or "-"
        table.add_row(str(item["number"]), item["name"], item["paper"], needs, item["messages"], *levels)
    return table


def _levels(claims: Mapping[str, str], found: Mapping[str, str], scenario: str) -> str:
    return f"{claims.get(scenario, '-')} / {found.get(scenario, '?')}"
