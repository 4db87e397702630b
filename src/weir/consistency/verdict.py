"""The checker's answer: for every level whether it holds, and a witness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.algebra.memory import MemoryBag
from weir.consistency.history import Vector
from weir.consistency.levels import highest, level
from weir.consistency.vectors import VectorSpace
from weir.consistency.witness import Difference, NotFinal, Placed, Witness


@dataclass(frozen=True)
class Verdict:
    """A witness per level or property; it holds when its witness places the states."""

    space: VectorSpace = field(repr=False, compare=False)
    witnesses: Mapping[str, Witness] = field(hash=False)

    def holds(self, name: str) -> bool:
        return isinstance(self.witness(name), Placed)

    def witness(self, name: str) -> Witness:
        return self.witnesses[level(name).name]

    @property
    def held(self) -> frozenset[str]:
        """The names of all that holds."""
        return frozenset(name for name, witness in self.witnesses.items() if isinstance(witness, Placed))

    @property
    def highest(self) -> str:
        """The highest level of the main chain that holds."""
        return highest(self.held)

    def explain(self, name: str) -> str:
        """The witness in words."""
        return self.witness(name).explain(self.space)

    def __str__(self) -> str:
        lines = [f"{n}: {'holds' if self.holds(n) else 'fails'}: {self.explain(n)}" for n in self.witnesses]
        return "\n".join(lines)


def judge(
    space: VectorSpace, states: Sequence[MemoryBag], final_value: MemoryBag, valid: Witness, ordered: Witness,
    complete: Callable[[Placed], Witness], of_reads: Mapping[str, Witness] | None = None,
) -> Verdict:  # fmt: skip
    """The verdict from what was found of validity and order; ``complete`` is asked only where strong holds."""
    last = len(states) - 1
    converged: Witness = Placed({last: space.final})
    if states[last] != final_value:
        converged = NotFinal(Difference.of(states[last], final_value))
    strong = _with_convergence(converged, ordered, space.final)
    witnesses = {
        "none": Placed({}),
        "convergence": converged,
        "weak-eca": valid,
        "weak": _with_convergence(converged, valid, space.final),
        "consistency": ordered,
        "strong": strong,
        "complete": complete(strong) if isinstance(strong, Placed) else strong,
        **(of_reads or {}),
        "up-to-date": converged,
    }
    return Verdict(space, witnesses)


def _with_convergence(converged: Witness, placed: Witness, final: Vector) -> Witness:
    """The witness that both hold, or against the first that does not.

    The final vector contains every other, so the last state can always be placed there without going
    backwards.
    """
    if not (isinstance(converged, Placed) and isinstance(placed, Placed)):
        return placed if isinstance(converged, Placed) else converged
    last = max(placed.vectors)
    return Placed({**placed.vectors, last: final})
