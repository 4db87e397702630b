"""Whose a change log is. A log that is trimmed for its reader, and a slot, serve one warehouse: its mark says so.

``owner`` is the mark of a warehouse and, behind it, the place where it lies, for people. Without one (a source that is
used by itself) nothing is claimed and nothing refused.
"""

from __future__ import annotations

import hashlib
import re

from weir.sources.source import CannotWatch

RELEASE = "weir capture release"
_LONGEST = 63  # PostgreSQL's names


def is_foreign(owner: str, found: str | None) -> bool:
    """Whether a log that bears the mark ``found`` is another warehouse's."""
    return bool(owner and found) and _mark(owner) != _mark(found or "")


def foreign(what: str, found: str, instead: str) -> tuple[str, str]:
    """The problem and the way out, for findings and refusals."""
    place = found.partition(" ")[2] or "a place that it does not tell"
    return f"{what} is read by another warehouse, at {place}", f"{instead}, or if that one is no more: {RELEASE}"


def refusal(source: str, told: tuple[str, str]) -> CannotWatch:
    return CannotWatch(f"{source}: {told[0]}; {told[1]}")


def own_name(prefix: str, source: str, owner: str) -> str:
    """A name that only this source of this warehouse has.

    >>> own_name("weir", "Shop", "3f2a9c81aa00 /srv/warehouse"), own_name("weir", "shop", "")
    ('weir_shop_02289946', 'weir')
    """
    if not owner:
        return prefix
    end = "_" + hashlib.sha256(f"{_mark(owner)}/{source}".encode()).hexdigest()[:8]
    return f"{prefix}_{re.sub('[^a-z0-9_]', '_', source.lower())}"[: _LONGEST - len(end)] + end


def _mark(owner: str) -> str:
    return owner.partition(" ")[0]
