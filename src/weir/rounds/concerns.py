"""Whom a source's trouble concerns: every unit is asked for alone, and only those that cannot go on are stopped.

A source is followed for all its units at once: the columns of all, from the oldest position on. When it then says that
its log does not reach back, or that a table has changed, that may be one unit's trouble: its position is older than the
others', or it alone uses the column that is gone. Each is therefore followed by itself for one visit, of which nothing
is kept. This happens seldom, so it may cost something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.algebra.view import needed_schemas
from weir.rounds.units import Unit
from weir.sources.source import CannotWatch, LoadAgain, SchemaChanged, Source

TROUBLE = (LoadAgain, SchemaChanged, CannotWatch)  # what may concern some units and not others


def needed_at(source: str, units: Sequence[Unit]) -> dict[Relation, Schema]:
    """What these units need of one source."""
    needed = needed_schemas(view.view for unit in units for view in unit.views)
    return {relation: schema for relation, schema in needed.items() if relation.source == source}


def concerned(source: Source, units: Sequence[Unit]) -> dict[str, WeirError]:
    """The units that the source cannot be followed for, by name, each with its own reason. Called in its thread."""
    found: dict[str, WeirError] = {}
    for unit in units:
        try:
            _follow(source, unit)
        except TROUBLE as problem:
            found[unit.name] = problem
    return found


def _follow(source: Source, unit: Unit) -> None:
    watched: Mapping[Relation, Schema] = needed_at(source.name, [unit])
    source.watch({relation: schema.names for relation, schema in watched.items()})
    if source.name in unit.positions:
        source.resume(str(unit.positions[source.name]))
        source.visit()


def way_out(unit: Unit, problem: WeirError) -> WeirError:
    """The reason with what to do, for this unit's views."""
    if isinstance(problem, CannotWatch):
        return WeirError(f"{problem}; then start weir run again")
    return WeirError(f"{problem}: weir run {' '.join(f'--reload {view.name}' for view in unit.views)}")
