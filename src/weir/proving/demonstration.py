"""The demo's course: a shop in three databases, writers, two views and one kept wrongly, and the audit of all.

``weir demo`` tells what happens here; this module does it and counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.algorithms.basic import Basic
from weir.operation.audit import Audit
from weir.operation.warehouse import Warehouse
from weir.project.starter.data import TABLES, table_sizes
from weir.project.starter.writing import write_project
from weir.proving.shop import shop_on_servers
from weir.rounds.engine import RoundReport

SIZE = 20  # times the rows of ``weir init``: recomputing must have something to read
PLACES = ("sqlite", "servers")
CONTRAST_NAME = "order_lines_basic"
_TURN = 0.5  # seconds of maintenance between two looks at the writers


@contextmanager
def shop(folder: Path, sources: str) -> Iterator[dict[str, str]]:
    """The project with its databases; where these are, for the traffic."""
    write_project(folder, SIZE)
    (folder / "views" / f"{CONTRAST_NAME}.sql").write_text(contrast_view(folder), encoding="utf-8")
    places = {source: str(folder / "data" / f"{source}.db") for source in TABLES}
    if sources == "sqlite":
        yield places
        return
    with shop_on_servers(folder, SIZE) as served:
        yield places | served


def contrast_view(folder: Path) -> str:
    """The text of a view like the project's ``order_lines``, kept without compensation: it goes wrong."""
    text = (folder / "views" / "order_lines.sql").read_text(encoding="utf-8")
    options = f"consistency = 'none', strategy = '{Basic.facts.name}'"
    return text.replace("VIEW order_lines", f"VIEW {CONTRAST_NAME}").replace("consistency = 'complete'", options)


def maintain_under_traffic(
    warehouse: Warehouse,
    folder: Path,
    places: Mapping[str, str],
    seconds: float,
    rate: float,
    on_round: Callable[[RoundReport], None],
) -> dict[str, int]:
    """Maintains the views while other processes write, and until all of it is committed; what each has written."""
    command = [sys.executable, str(folder / "traffic.py"), "--seconds", str(seconds), "--rate", str(rate)]
    servers = [option for name, place in places.items() if "://" in place for option in ("--at", f"{name}={place}")]
    with subprocess.Popen([*command, *servers], stdout=subprocess.PIPE, text=True, env=os.environ) as writers:
        try:
            while writers.poll() is None:
                warehouse.run(seconds=_TURN, on_round=on_round)
        finally:
            writers.terminate()
        written = writers.stdout.read() if writers.stdout is not None else ""
    warehouse.run(until_caught_up=True, on_round=on_round)
    return {line.partition(":")[0]: int(line.split()[1]) for line in written.splitlines()}


@dataclass(frozen=True)
class Outcome:
    """One view in the end: its audit, what it cost, and what recomputing it at every commit would have."""

    name: str
    strategy: str
    level: str
    transactions: int
    commits: int  # the first load is not counted
    audit: Audit
    questions: int
    rows_fetched: int
    tables: int
    table_rows: int

    @property
    def ours(self) -> bool:
        return self.name != CONTRAST_NAME

    @property
    def recomputing(self) -> tuple[int, int]:
        """Questions and rows: every table once per commit, at its size in the end."""
        return self.commits * self.tables, self.commits * self.table_rows

    def document(self) -> dict[str, Any]:
        questions, rows = self.recomputing
        return {
            "name": self.name,
            "strategy": self.strategy,
            "level": self.level,
            "transactions": self.transactions,
            "commits": self.commits,
            "rows": self.audit.rows,
            "missing": self.audit.missing,
            "extra": self.audit.extra,
            "asked": {"questions": self.questions, "rows": self.rows_fetched},
            "recomputing": {"questions": questions, "rows": rows},
        }


def outcomes(warehouse: Warehouse, places: Mapping[str, str]) -> list[Outcome]:
    """The audit of every view, at one vector, and the bill."""
    counted = {view["name"]: view for view in warehouse.status()["views"]}
    sizes = table_sizes(places)
    return [_outcome(warehouse, counted[each.view], each, sizes) for each in warehouse.verify_all()]


def _outcome(warehouse: Warehouse, view: Mapping[str, Any], audit: Audit, sizes: Mapping[str, int]) -> Outcome:
    rows = [sizes[str(relation)] for relation in warehouse.parsed_view(audit.view).relations]
    asked = view["asked"]
    return Outcome(
        audit.view, view["strategy"], view["level"], view["transactions"], view["commits"] - 1, audit,
        asked["lookups"], asked["rows"], len(rows), sum(rows),
    )  # fmt: skip
