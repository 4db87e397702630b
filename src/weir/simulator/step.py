"""The steps of a schedule, and how they are written.

    U1            the source runs its next transaction, the one called U1, and notifies the warehouse
    answer s      source s answers the oldest question, or its node handles the oldest message, it has received
                  (``answer s 2``: the second, where channels may reorder and there are nodes)
    deliver s     the oldest message of source s reaches the warehouse
                  (``deliver s 3``: the third, where channels may reorder)
    idle          nothing is under way: the warehouse's timer
    read          a reader looks at the view
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weir.algebra.errors import WeirError

RUN, ANSWER, DELIVER, IDLE, READ = "run", "answer", "deliver", "idle", "read"


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``name`` is a transaction for RUN and a source for ANSWER and DELIVER; ``place`` counts from 0."""

    kind: str
    name: str = ""
    place: int = 0

    def __str__(self) -> str:
        if self.kind == RUN:
            return self.name
        words = [self.kind, self.name, str(self.place + 1) if self.place else ""]
        return " ".join(word for word in words if word)


Schedule = tuple[Step, ...]


def parse_step(text: str, transactions: Iterable[str]) -> Step:
    """Reads one step as written in a scenario file.

    >>> parse_step("deliver s 3", []), str(parse_step("U1", ["U1"]))
    (Step(kind='deliver', name='s', place=2), 'U1')
    """
    transactions = tuple(transactions)
    if text.strip() in transactions:  # whose names may have blanks
        return Step(RUN, text.strip())
    match text.split():
        case ["idle" | "read" as kind]:
            return Step(kind)
        case ["answer" | "deliver" as kind, source]:
            return Step(kind, source)
        case ["answer" | "deliver" as kind, source, place] if place.isdigit() and int(place) > 0:
            return Step(kind, source, int(place) - 1)
    known = ", ".join(transactions) or "none"
    raise WeirError(
        f"'{text}' is no step of a schedule: write a transaction's name ({known}), 'answer SOURCE', 'deliver SOURCE', "
        "'idle' or 'read'"
    )
