"""A name that nobody knows is answered with those that come near."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], listing: str) -> str:
    """The end of a sentence: the nearest name; failing that, all there are.

    >>> did_you_mean("pth", ["path", "kind"], "the keys are")
    "did you mean 'path'?"
    >>> did_you_mean("colour", ["path", "kind"], "the keys are")
    'the keys are path, kind'
    """
    unique, near = _nearest(name, known)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"{listing} {', '.join(unique)}" if unique else "there are none"


def way_out(name: str, known: Iterable[str], listing: str) -> str:
    """A sentence of its own, for a place that the message already points at: all names that come near.

    >>> way_out("Pth", ["Path", "paths", "kind"], "The columns are")
    'Did you mean Path or paths?'
    >>> way_out("x", [], "The columns are")
    'There are none.'
    """
    unique, near = _nearest(name, known)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"{listing} {', '.join(unique)}." if unique else "There are none."


def _nearest(name: str, known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Each known name once, and those that come near, nearest first; upper and lower case are alike."""
    unique = list(dict.fromkeys(known))
    by_fold = {other.lower(): other for other in unique}
    return unique, [by_fold[fold] for fold in get_close_matches(name.lower(), by_fold)]
