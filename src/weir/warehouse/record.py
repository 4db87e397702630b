"""What a commit says about itself, in the same atomic file as the data it adds; and how a state is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.messages import Position
from weir.warehouse.staging import Staged

ArrivalStep = tuple[int, str, Position]  # an arrival number, its source, and that source's position after it

CREATE, LOAD, APPEND, REWRITE, FOLLOW = "create", "load", "append", "rewrite", "follow"


@dataclass(frozen=True)
class Record:
    """One Delta version = one state of the warehouse, with the vector of source positions that it reflects.

    ``arrivals`` is the range that the commit itself brought (None when it brought none); ``last_arrival`` is the last
    one that the state holds. ``steps`` may say at which arrival which source stood where, so that the states inside a
    batch can be found by position too; ``inside`` names the files with the batch's signed rows by arrival, and ``owed``
    the one with the counts below zero of the state. ``live`` is how many rows are visible. ``notes`` are the writer's
    own words about the state; whoever only rewrites files keeps them. ``followers`` and ``leader``: see
    ``following.py``.
    """

    kind: str
    positions: Mapping[str, Position] = field(hash=False)
    last_arrival: int
    transaction: int
    arrivals: tuple[int, int] | None = None
    live: int = 0
    rows: int = 0  # of the files that the commit has added
    bytes: int = 0
    steps: tuple[ArrivalStep, ...] = ()
    inside: tuple[str, ...] = ()
    owed: str = ""
    exact: bool = False  # whether nothing was taken that was not there
    anew: bool = False  # whether all rows were put in place of others that could not be read any more
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    followers: tuple[Decided, ...] = ()
    leader: str = ""
    token: str = ""  # tells our own commit from another writer's, when the answer to the commit was lost
    version: int = -1
    timestamp: int = 0

    def document(self) -> dict[str, Any]:
        """As stored in the commit."""
        document: dict[str, Any] = {
            "kind": self.kind,
            "positions": dict(self.positions),
            "arrivals": list(self.arrivals) if self.arrivals else None,
            "last_arrival": self.last_arrival,
            "transaction": self.transaction,
            "live": self.live,
            "rows": self.rows,
            "bytes": self.bytes,
            "token": self.token,
        }
        seldom: dict[str, Any] = {
            "steps": [list(step) for step in self.steps],
            "inside": list(self.inside),
            "owed": self.owed,
            "exact": self.exact,
            "anew": self.anew,
            "notes": dict(self.notes),
            "followers": [decided.document() for decided in self.followers],
            "leader": self.leader,
        }
        return document | {name: value for name, value in seldom.items() if value}

    @classmethod
    def parse(cls, document: Mapping[str, Any], version: int, timestamp: int) -> Record:
        arrivals = document["arrivals"]
        return cls(
            kind=document["kind"],
            positions=document["positions"],
            last_arrival=document["last_arrival"],
            transaction=document["transaction"],
            arrivals=(arrivals[0], arrivals[1]) if arrivals else None,
            live=document["live"],
            rows=document["rows"],
            bytes=document["bytes"],
            steps=tuple((arrival, source, position) for arrival, source, position in document.get("steps", ())),
            inside=tuple(document.get("inside", ())),
            owed=document.get("owed", ""),
            exact=document.get("exact", False),
            anew=document.get("anew", False),
            notes=document.get("notes", {}),
            followers=tuple(map(Decided.parse, document.get("followers", ()))),
            leader=document.get("leader", ""),
            token=document["token"],
            version=version,
            timestamp=timestamp,
        )

    def states(self, before: Mapping[str, Position]) -> Iterator[tuple[int | None, Mapping[str, Position]]]:
        """The vectors that this commit passes through, each with the arrival it ends at; None is the commit's end."""
        vector = dict(before)
        for arrival, source, position in self.steps:
            vector[source] = position
            yield arrival, dict(vector)
        yield None, self.positions


@dataclass(frozen=True)
class Decided:
    """What a commit has decided for another table: the files that wait there, and what that table's commit will say.
    Which rows these files take away is found when they are committed.
    """

    path: str  # from the deciding table's place
    table: str  # the table's Delta id
    after: int  # the transaction that it follows there
    record: Record
    staged: Staged

    def document(self) -> dict[str, Any]:
        return {**vars(self), "record": self.record.document(), "staged": self.staged.document()}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Decided:
        record = Record.parse(document["record"], version=-1, timestamp=0)
        staged = Staged.parse(document["staged"])
        return cls(document["path"], document["table"], document["after"], record, staged)


@dataclass(frozen=True)
class AsOf:
    """A state: by Delta version, by arrival number, or by the positions of some or all sources. Nothing means now."""

    version: int | None = None
    arrival: int | None = None
    positions: Mapping[str, Position] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.version, self.arrival, self.positions)) > 1:
            raise ValueError("as of one thing: a version, an arrival or positions")

    def __str__(self) -> str:
        if self.version is not None:
            return f"version {self.version}"
        if self.arrival is not None:
            return f"arrival {self.arrival}"
        if self.positions is not None:
            return "positions " + ", ".join(f"{source}={position}" for source, position in self.positions.items())
        return "now"


NOW = AsOf()


def steps_of(steps: Sequence[ArrivalStep]) -> tuple[ArrivalStep, ...]:
    return tuple(sorted(steps, key=lambda step: step[0]))
