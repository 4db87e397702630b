"""Finding a state: by version, by arrival number, or by source positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from weir.messages import Position
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.errors import NoSuchState
from weir.warehouse.record import LOAD, AsOf, Record
from weir.warehouse.replaying import State


@dataclass(frozen=True)
class ShownState:
    """A state to be read: a version's own; or, inside a batch, the version before it and the batch's rows up to an
    arrival, with the rows that are owed at the version.
    """

    state: State
    arrival: int | None = None
    inside: tuple[str, ...] = ()
    owed: str = ""


def find_state(log: DeltaLog, as_of: AsOf) -> ShownState:
    version, arrival = find_version(log, as_of)
    if arrival is None:
        return ShownState(log.state(version))
    return ShownState(log.state(version - 1), arrival, log.record(version).inside, log.record(version - 1).owed)


def find_version(log: DeltaLog, as_of: AsOf) -> tuple[int, int | None]:
    """The version that holds the state, and the arrival to stop at when the state lies inside that version's batch."""
    if as_of == AsOf():
        return log.latest(), None
    versions = log.versions()
    if as_of.version is not None:
        if as_of.version not in versions:
            raise _unknown(log, as_of, versions)
        return as_of.version, None
    if as_of.arrival is not None:
        return _by_arrival(log, as_of, as_of.arrival, versions)
    assert as_of.positions is not None
    return _by_positions(log, as_of, as_of.positions, versions)


def _by_arrival(log: DeltaLog, as_of: AsOf, arrival: int, versions: list[int]) -> tuple[int, int | None]:
    """The first version that holds the arrival."""
    if len(versions) > 1 and _is_empty_start(log.record(versions[0]), log.record(versions[1])):
        versions = versions[1:]
    at = bisect_left(versions, arrival, key=lambda version: log.record(version).last_arrival)
    if at == len(versions) or (at == 0 and log.record(versions[0]).last_arrival != arrival):
        raise _unknown(log, as_of, versions)
    record = log.record(versions[at])
    if record.last_arrival == arrival:
        return versions[at], None
    if record.kind == LOAD:
        raise _inside_load(log, as_of, log.record(versions[at - 1]), record)
    return versions[at], arrival


def _is_empty_start(created: Record, first: Record) -> bool:
    """A table is empty between its creation and its first load, and no source was ever like that. One that was made
    in place of a damaged one goes on after that one's last arrival.
    """
    goes_on = created.last_arrival > 0 or first.last_arrival == created.last_arrival
    return not created.transaction and first.kind == LOAD and goes_on


def _by_positions(
    log: DeltaLog, as_of: AsOf, wanted: Mapping[str, Position], versions: list[int]
) -> tuple[int, int | None]:
    """The first state at which every source named stands where it is asked to."""
    before: Mapping[str, Position] = {}
    for number, version in enumerate(versions):
        record = log.record(version)
        for arrival, vector in record.states(before):
            inside = arrival is not None
            if inside and number == 0:
                continue  # what came before the oldest kept version is gone, so the inside of its batch is too
            if all(vector.get(source) == position for source, position in wanted.items()):
                return version, arrival if inside and arrival != record.last_arrival else None
        before = record.positions
    raise _unknown(log, as_of, versions)


def _inside_load(log: DeltaLog, as_of: AsOf, before: Record, load: Record) -> NoSuchState:
    """Rows that were put in place of others have no states between."""
    why = f" ({load.notes['load']})" if "load" in load.notes else ""
    return NoSuchState(
        f"the view at '{log.place.uri}' has no state as of {as_of}: arrivals {before.last_arrival + 1} to "
        f"{load.last_arrival} came together, when all rows were put in place of the ones before{why}. "
        f"The nearest states are arrival {before.last_arrival} and arrival {load.last_arrival}."
    )


def _unknown(log: DeltaLog, as_of: AsOf, versions: list[int]) -> NoSuchState:
    oldest, newest = log.record(versions[0]), log.record(versions[-1])
    return NoSuchState(
        f"the view at '{log.place.uri}' has no state as of {as_of}: kept are versions {versions[0]} to {versions[-1]}, "
        f"arrivals {oldest.last_arrival} to {newest.last_arrival}. "
        f"The oldest is version {versions[0]} at {_vector(oldest.positions)}."
    )


def _vector(positions: Mapping[str, Position]) -> str:
    return ", ".join(f"{source}={position}" for source, position in positions.items()) or "no position"
