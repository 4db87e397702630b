"""SQL LIKE patterns as Python regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache

from weir.algebra.errors import EvaluationError


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "\\") -> re.Pattern[str]:
    r"""``%`` is any text, ``_`` any one character, the escape character makes them (and itself) plain.

    >>> bool(like_pattern(r"100\%_").fullmatch("100%!"))
    True
    """
    parts, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            at += 1
            parts.append(re.escape(_escaped(pattern, at, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        at += 1
    return re.compile("".join(parts), re.DOTALL)


def _escaped(pattern: str, at: int, escape: str) -> str:
    if at < len(pattern) and pattern[at] in ("%", "_", escape):
        return pattern[at]
    raise EvaluationError(
        f"LIKE pattern {pattern!r}: {escape!r} must stand before %, _ or itself; double it to mean itself"
    )
