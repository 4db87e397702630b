"""The fault matrix: which fault, in which phase of a batch, at which kind of source, and which rule says what follows.

``docs/reliability.md`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.ward import PHASES
from weir.rounds import supervision
from weir.rounds.supervision import Response

SERVERS = ("postgres", "mariadb")
EVERYWHERE = ("postgres", "mariadb", "sqlite")
ALL = tuple(PHASES)


@dataclass(frozen=True)
class Fault:
    """One row of the matrix."""

    name: str
    how: str  # it is brought about
    rule: Response
    kinds: tuple[str, ...] = EVERYWHERE
    phases: tuple[str, ...] = ALL

    @property
    def cases(self) -> int:
        return len(self.kinds) * len(self.phases)


DROPPED = Fault("connection dropped", "a relay resets all connections", supervision.SOURCE_DOWN, SERVERS)
SILENT = Fault("silence for 30 s", "a relay lets no byte pass", supervision.SOURCE_SILENT, SERVERS)
KILLED = Fault("server killed", "`kill -9`, back after a second; SQLite: its file moved", supervision.SOURCE_DOWN)
RESTARTED = Fault("server restarted", "an orderly end and a start", supervision.SOURCE_DOWN, SERVERS)
LOG_GONE = Fault("log gone", "slot dropped; `RESET MASTER`; capture made anew", supervision.SOURCE_LOG_GONE)
TASK_KILLED = Fault("Spark task killed", "`kill -9` to all Python workers", supervision.TASK_LOST)
SPARK_KILLED = Fault("JVM killed", "`kill -9` to Spark's Java process", supervision.SPARK_GONE)
DISK_FULL = Fault("disk full", "a small disk below the table, filled", supervision.STORE_REFUSES)
READ_ONLY = Fault("read-only", "the table mounted read-only", supervision.STORE_REFUSES)
DAMAGED = Fault("commit damaged", "the last commit cut off", supervision.STORE_DAMAGED)
SECOND = Fault("second runner", "started on the same warehouse", supervision.SECOND_RUNNER)
MATRIX = (
    DROPPED, SILENT, KILLED, RESTARTED, LOG_GONE, TASK_KILLED, SPARK_KILLED, DISK_FULL, READ_ONLY, DAMAGED, SECOND,
)  # fmt: skip


def rules_table() -> str:
    """What follows a fault, as Markdown."""
    rows = [
        f"| {rule.part} | {rule.fault} | {rule.noticed} | {rule.state} | {rule.again or 'not by itself'} |"
        for rule in supervision.RULES
    ]
    head = ["| part | what fails | who notices | the views concerned | tried again |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def matrix_table() -> str:
    """How many cases of each fault are brought about, as Markdown."""
    head = ["| fault | how | " + " | ".join(ALL) + " | cases |", "|---" * (len(ALL) + 3) + "|"]
    rows = [
        f"| {fault.name} | {fault.how} | "
        + " | ".join(" ".join(_SHORT[kind] for kind in fault.kinds) if phase in fault.phases else "" for phase in ALL)
        + f" | {fault.cases} |"
        for fault in MATRIX
    ]
    return "\n".join([*head, *rows, f"| all | | {'| ' * len(ALL)}| {sum(fault.cases for fault in MATRIX)} |"])


_SHORT = {"postgres": "P", "mariadb": "M", "sqlite": "S"}
