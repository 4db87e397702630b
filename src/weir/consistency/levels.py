"""The consistency levels as data: what each demands, and which follow from which.

``ws_0 .. ws_f`` are the states of the view that a reader can see. A source state **vector** says how many
transactions of each source have happened. The papers use some names twice with different meanings, so both
meanings are kept, under names of their own: ``weak`` is the Strobe paper's and demands convergence,
``weak-eca`` is the ECA paper's and does not.

The three properties of the Ring paper are about the values that readers' queries returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from weir.algebra.errors import WeirError


class UnknownLevel(WeirError):
    """A level's name that nobody knows."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level or property: its demand in words, and the weaker ones that follow from it at once."""

    name: str
    demand: str
    implies: tuple[str, ...] = ()


LEVELS: Mapping[str, Level] = {
    level.name: level
    for level in (
        Level("none", "nothing"),
        Level(
            "convergence",
            "after all activity, the view state equals the view over the final source states",
            implies=("none", "up-to-date"),
        ),
        Level("weak-eca", "every view state equals the view over some legal vector", implies=("none",)),
        Level("weak", "convergence, and every view state is valid", implies=("convergence", "weak-eca")),
        Level(
            "consistency",
            "every view state is valid, by one choice of vectors that never goes backwards",
            implies=("weak-eca",),
        ),
        Level("strong", "convergence and consistency", implies=("weak", "consistency")),
        Level(
            "complete",
            "strong, by vectors that step through every state of one serial order of the transactions",
            implies=("strong",),
        ),
        Level("validity", "every value read equals the view over some legal vector"),
        Level("order", "the values read are valid, by vectors that never go backwards", implies=("validity",)),
        Level(
            "up-to-date",
            "every update is covered: a read after all activity sees the view over the final source states",
            implies=("convergence",),  # such a read sees the last view state, so the two are one
        ),
    )
}

NAMES = ("none", "convergence", "weak", "strong", "complete")
"""The main chain, each level stronger than the one before: what tables show."""


def level(name: str) -> Level:
    """The level of that name.

    >>> level("strong").implies
    ('weak', 'consistency')
    """
    try:
        return LEVELS[name]
    except KeyError:
        raise UnknownLevel(f"unknown consistency level '{name}': use one of {', '.join(LEVELS)}") from None


def implied(name: str) -> frozenset[str]:
    """The level itself and everything that follows from it.

    >>> sorted(implied("weak"))
    ['convergence', 'none', 'up-to-date', 'weak', 'weak-eca']
    """
    reached = [name]
    for at in reached:
        reached += [weaker for weaker in level(at).implies if weaker not in reached]
    return frozenset(reached)


def implies(stronger: str, weaker: str) -> bool:
    """Whether every history that holds the first level holds the second."""
    return level(weaker).name in implied(stronger)


def next_above(name: str) -> str | None:
    """The next level of the main chain, if there is one."""
    return dict(pairwise(NAMES)).get(name)


def highest(held: Collection[str]) -> str:
    """The highest level of the main chain among those held.

    >>> highest({"none", "convergence", "weak-eca", "weak"})
    'weak'
    """
    return max((name for name in NAMES if name in held), key=NAMES.index, default="none")
