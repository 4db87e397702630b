"""Supervision: what can fail, who notices it, what becomes of the views concerned, and what is tried again when.

One table. The rounds take their pauses and limits from it, ``docs/reliability.md`` prints it, and the fault matrix
(``tests/faults``) brings about every row of it in every phase of a batch. What they all have in common:

- A fault concerns the views that need the part which has failed. All others keep their pace.
- A view that **waits** holds nothing in memory and loses nothing: it goes on from its last commit, by itself.
- A view that has **failed** cannot go on by itself; it says what to do. Its sources keep their logs for it meanwhile.
- What nobody foresaw is tried again a few times, and then said: never for ever in silence, never the whole process.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.spark.session import SparkGone

SILENT_AFTER = 5.0  # seconds without an answer after which a source counts as silent


@dataclass(frozen=True)
class Pauses:
    """Seconds before something is tried again: they double up to ``most``. ``times`` in a row, then it is given up."""

    first: float
    most: float
    times: int | None = None

    def after(self, tries: int) -> float:
        """Before the next try, when so many have failed.

        >>> [Pauses(0.4, 30.0).after(tries) for tries in (1, 2, 3, 50)]
        [0.4, 0.8, 1.6, 30.0]
        """
        return min(self.most, self.first * float(2 ** min(tries - 1, 30)))

    def __str__(self) -> str:
        pause = f"after {self.first:g} s" + (f", then longer, up to {self.most:g} s" if self.most > self.first else "")
        return pause + ("" if self.times is None else f"; {self.times} times in a row")


@dataclass(frozen=True)
class Response:
    """What happens after one kind of fault. ``reads``: a pattern of what the user is told."""

    part: str
    fault: str
    noticed: str
    state: str  # of the views concerned, or of the process
    again: Pauses | None
    reads: str


SOURCE_PAUSES = Pauses(0.4, 30.0)
TASK_PAUSES = Pauses(0.5, 4.0, times=4)
STORE_PAUSES = Pauses(2.0, 2.0)
CORES_FOR = Pauses(1.0, 3600.0)  # seconds for which work at a source that does not answer keeps the cores from others
AUDIT_CORES_FOR = 30.0  # the same for an audit, which is not tried again

SOURCE_DOWN = Response(
    "source", "refuses or drops its connections, is killed, is restarted",
    "by the contact or the question that fails, at once",
    "waiting", SOURCE_PAUSES, r"waits for source \S+: .+",
)  # fmt: skip
SOURCE_SILENT = Response(
    "source", "accepts, and says nothing: it hangs, or packets are eaten",
    f"by the round, {SILENT_AFTER:g} s after it was asked; by its own connection after `silence` (120 s)",
    "waiting", SOURCE_PAUSES, r"waits for source \S+: it was asked \d+ s ago and has not answered",
)  # fmt: skip
SOURCE_LOG_GONE = Response(
    "source", "its log does not reach back: the slot dropped, the binary log purged, the capture removed",
    "by the source's next contact; each of its views is asked for by itself",
    "failed", None, r".+ weir run --reload \S+",
)  # fmt: skip
TASK_LOST = Response(
    "task", "killed, or failed by something that is no source's trouble",
    "by the party whose job it was, at once",
    "waiting", TASK_PAUSES, r"\S+: .+",
)  # fmt: skip
SPARK_GONE = Response(
    "Spark", "its Java process, or the Spark Connect server, has ended",
    "by the next round",
    f"the process ends with exit code {SparkGone.exit_code}", None, r"Spark has ended: .+ start weir run again",
)  # fmt: skip
STORE_REFUSES = Response(
    "store", "the disk is full, or a table cannot be written",
    "by the write",
    "waiting", STORE_PAUSES, r"cannot write to .+",
)  # fmt: skip
STORE_DAMAGED = Response(
    "store", "a table's log or files are cut off, overwritten or gone",
    "when the table is read or written next; at the latest at the next start",
    "failed", None, r".+ weir run --reload \S+",
)  # fmt: skip
VIEW_CANNOT = Response(
    "view", "its own trouble: a value that its expressions cannot compute, an edited definition",
    "by whoever computes it, or at the start",
    "failed", None, r".+",
)  # fmt: skip
SECOND_RUNNER = Response(
    "runner", "another one is started on the same warehouse",
    "by the lock, at once",
    "the second one ends with exit code 2; the first goes on", None, r".+ is being run by process \d+; .+",
)  # fmt: skip
RULES = (
    SOURCE_DOWN, SOURCE_SILENT, SOURCE_LOG_GONE, TASK_LOST, SPARK_GONE, STORE_REFUSES, STORE_DAMAGED, VIEW_CANNOT,
    SECOND_RUNNER,
)  # fmt: skip
