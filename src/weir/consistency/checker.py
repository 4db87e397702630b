"""The checker: which levels a history holds, each with a witness.

``check`` searches the lattice of legal vectors, so it needs no help from the algorithm that made the history
and believes nothing it says. ``highest_level`` is the same decision without witnesses, for exploring hundreds
of thousands of histories.

Repeating a state is allowed on both sides everywhere: a commit may leave the view as it was, and a
transaction may change nothing in the view, in which case no new state needs to be seen for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from weir.algebra.memory import MemoryBag
from weir.consistency.history import HistoryError, Vector
from weir.consistency.lattice import Front, Lattice
from weir.consistency.vectors import contains
from weir.consistency.verdict import Verdict, judge
from weir.consistency.witness import (
    Backwards,
    Difference,
    NoPlace,
    NotInitial,
    Placed,
    Skipped,
    Witness,
)

States = Sequence[MemoryBag]


def check(lattice: Lattice, states: States, reads: States | None = None) -> Verdict:
    """The verdict on the view states, and on the values read; without these every state is read once."""
    _require_a_state(states)
    seen = states if reads is None else reads
    of_reads = {"validity": _check_valid(lattice, seen), "order": _check_order(lattice, seen)}
    return judge(
        lattice, states, lattice.final_value, _check_valid(lattice, states), _check_order(lattice, states),
        lambda strong: _check_steps(lattice, states), of_reads,
    )  # fmt: skip


def highest_level(lattice: Lattice, states: States) -> str:
    """The highest level of the main chain that the view states hold; as ``check`` says, without a witness."""
    _require_a_state(states)
    if states[-1] != lattice.final_value:
        return "none"
    if not _ordered_fronts(lattice, states)[-1]:
        return "weak" if all(map(lattice.places, states)) else "convergence"
    runs = [state for state, _ in groupby(states)]
    return "complete" if lattice.final in _step_fronts(lattice, runs)[-1] else "strong"


def _require_a_state(states: States) -> None:
    if not states:
        raise HistoryError("a history has at least one view state: the view before anything happened")


# -- validity ------------------------------------------------------------------------------------------------


def _check_valid(lattice: Lattice, states: States) -> Witness:
    for at, state in enumerate(states):
        if not lattice.places(state):
            return _no_place(lattice, at, state)
    return Placed({at: lattice.places(state)[0] for at, state in enumerate(states)})


def _no_place(lattice: Lattice, at: int, state: MemoryBag) -> NoPlace:
    """The nearest value differs in the fewest tuples; among equals, and among its vectors, the smallest."""
    nearest = min(lattice.vectors_by_value, key=lambda value: (value - state).cardinality)
    return NoPlace(at, lattice.places(nearest)[0], Difference.of(state, nearest))


# -- order: one choice of vectors that never goes backwards --------------------------------------------------


def _fronts(first: Front, states: States, move: Callable[[Front, MemoryBag], Front]) -> list[Front]:
    """Where each state may stand, given those before it; ends with the first state that has no place."""
    fronts = [first]
    for state in states[1:]:
        if not fronts[-1]:
            break
        fronts.append(move(fronts[-1], state))
    return fronts


def _ordered_fronts(lattice: Lattice, states: States) -> list[Front]:
    return _fronts(lattice.anywhere(states[0]), states, lattice.follow)


def _check_order(lattice: Lattice, states: States) -> Witness:
    if not states:
        return Placed({})
    fronts = _ordered_fronts(lattice, states)
    if fronts[-1]:
        return Placed(dict(enumerate(_choose(fronts))))
    later = len(fronts) - 1
    places = lattice.places(states[later])
    if not places:
        return _no_place(lattice, later, states[later])
    return _backwards(fronts, later, places)


def _choose(fronts: list[Front]) -> list[Vector]:
    """One never-backwards choice, from the end: every vector of a front contains one of the front before."""
    chosen = [min(fronts[-1])]
    for front in reversed(fronts[:-1]):
        chosen.append(min(vector for vector in front if contains(chosen[-1], vector)))
    return chosen[::-1]


def _backwards(fronts: list[Front], later: int, places: tuple[Vector, ...]) -> Backwards:
    """The first state after which the later one has no place left."""
    earlier = next(
        at for at in range(later) if not any(contains(place, vector) for place in places for vector in fronts[at])
    )
    return Backwards(earlier, later, tuple(sorted(fronts[earlier])), places)


# -- completeness: one transaction at a time -----------------------------------------------------------------


def _step_fronts(lattice: Lattice, runs: States) -> list[Front]:
    """By single transactions from the initial vector; no two neighbours are equal."""
    return _fronts(lattice.begin(runs[0]), runs, lattice.step)


def _check_steps(lattice: Lattice, states: States) -> Witness:
    runs = [[at for at, _ in run] for _, run in groupby(enumerate(states), key=lambda item: item[1])]
    values = [states[run[0]] for run in runs]
    fronts = _step_fronts(lattice, values)
    if lattice.final in fronts[-1]:
        return _placed_on_path(lattice, runs, fronts)
    if not fronts[0]:
        return NotInitial(Difference.of(states[0], lattice.value(lattice.initial)))
    if fronts[-1]:
        return _skipped(lattice, runs[-1][-1], fronts[-1], (lattice.final,))
    return _no_step(lattice, runs, fronts, values[len(fronts) - 1])


def _placed_on_path(lattice: Lattice, runs: list[list[int]], fronts: list[Front]) -> Placed:
    """Every state at the first vector of its run on the path, the last state at the end of it."""
    path = list(_path_back(lattice, fronts))[::-1]
    first: dict[int, Vector] = {}
    for run, vector in path:
        first.setdefault(run, vector)
    vectors = {at: first[number] for number, run in enumerate(runs) for at in run}
    return Placed({**vectors, runs[-1][-1]: lattice.final}, tuple(vector for _, vector in path))


def _path_back(lattice: Lattice, fronts: list[Front]) -> Iterator[tuple[int, Vector]]:
    """One path from the final vector back to the initial one: (number of the run, vector).

    Whatever is in a front was entered from the front before, or from the same front by a transaction that
    changed nothing.
    """
    run, vector = len(fronts) - 1, lattice.final
    yield run, vector
    while vector != lattice.initial:
        run, vector = next(
            (number, earlier)
            for earlier in lattice.before(vector)
            for number in (run - 1, run)
            if number >= 0 and earlier in fronts[number]
        )
        yield run, vector


def _no_step(lattice: Lattice, runs: list[list[int]], fronts: list[Front], state: MemoryBag) -> Witness:
    """Why the state behind the last full front is no single step: it lies further on, or not ahead at all."""
    front, places = fronts[-2], lattice.places(state)
    earlier, later = runs[len(fronts) - 2][-1], runs[len(fronts) - 1][0]
    ahead = tuple(place for place in places if any(contains(place, vector) for vector in front))
    if ahead:
        return _skipped(lattice, earlier, front, ahead)
    return Backwards(earlier, later, tuple(sorted(front)), places)


def _skipped(lattice: Lattice, state: int, front: Front, targets: tuple[Vector, ...]) -> Skipped:
    """The first unseen value on the shortest way from the front to a target.

    No transaction on that way leads to the front's value (the front would hold its vector, and the way be
    shorter) or to the target's (it would be a step).
    """
    pairs = [(sum(t) - sum(v), v, t) for t in targets for v in front if contains(t, v)]
    _, start, target = min(pairs)
    vector = next(lattice.walk(start, target))
    return Skipped(state, start, vector, lattice.value(vector))
