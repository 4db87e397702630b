"""Whom a source's trouble concerns: every unit is asked for alone, and only those that cannot go on are stopped.

A source is followed for all its units at once: the columns of all, from the oldest position on. When it then says that
its log does not reach back, or that a table has changed, that may be one unit's trouble: its position is older than the
others', or it alone uses the column that is gone. Each is therefore followed by itself for one visit, of which nothing
is kept, in the same contact that met the trouble. This happens seldom, so it may cost something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.algebra.view import needed_schemas
from weir.rounds.units import Unit
from weir.sources.source import CannotWatch, LoadAgain, SchemaChanged, Source

TROUBLE = (LoadAgain, SchemaChanged, CannotWatch)  # what may concern some units and not others


@dataclass(frozen=True)
class Claim:
    """What one unit needs of a source, and the position up to which it has received."""

    columns: Mapping[Relation, Sequence[str]]
    position: str | None

    @classmethod
    def of(cls, unit: Unit, source: str) -> Claim:
        needed = needed_at(source, [unit])
        position = unit.positions.get(source)
        columns = {relation: schema.names for relation, schema in needed.items()}
        return cls(columns, None if position is None else str(position))


class Concerning(WeirError):
    """A source's trouble, and the units that it concerns, each with its own reason."""

    def __init__(self, problem: WeirError, units: Mapping[str, WeirError]) -> None:
        super().__init__(str(problem))
        self.problem, self.units = problem, units


def needed_at(source: str, units: Sequence[Unit]) -> dict[Relation, Schema]:
    """What these units need of one source."""
    needed = needed_schemas(view.view for unit in units for view in unit.views)
    return {relation: schema for relation, schema in needed.items() if relation.source == source}


def concerned(source: Source, followers: Mapping[str, Claim]) -> dict[str, WeirError]:
    """The units that the source cannot be followed for, by name, each with its own reason. Called in its thread."""
    found: dict[str, WeirError] = {}
    for name, follower in followers.items():
        try:
            _follow(source, follower)
        except TROUBLE as problem:
            found[name] = problem
    return found


def _follow(source: Source, follower: Claim) -> None:
    source.watch(follower.columns)
    if follower.position is not None:
        source.resume(follower.position)
        source.visit()


def way_out(unit: Unit, problem: WeirError) -> WeirError:
    """The reason with what to do, for this unit's views."""
    if isinstance(problem, CannotWatch):
        return WeirError(f"{problem}; then start weir run again")
    return WeirError(f"{problem}: weir run {' '.join(f'--reload {view.name}' for view in unit.views)}")
