"""Identifiers in SQL text."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    """
    >>> quoted("a`b; DROP TABLE t")
    '`a``b; DROP TABLE t`'
    """
    return "`" + name.replace("`", "``") + "`"


def quoted_list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
