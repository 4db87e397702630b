"""The refresh times of the Partition paper's sections 4 and 5, in units of t; and the space of its auxiliary views.

Section 4.1: a refresh that asks N questions one after the other takes 2 N t; work at either end is neglected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sweep(n: int) -> int:
    """SWEEP asks every other table."""
    return 2 * (n - 1)


def c_strobe(n: int, mu: int) -> int:
    """C-Strobe with mu concurrent updates."""
    return max(2 * int(mu ** (n - 2)), 2 * n - 2)


def equal(p: int) -> int:
    """An update in a group of p tables."""
    return 2 * (p - 1)


def serial(p: int, r: int) -> int:
    """r updates one after the other."""
    return equal(p) * r


def weighted(sizes: Mapping[int, int], frequencies: Mapping[int, int]) -> float:
    """The average over updates: ``sizes`` and ``frequencies`` by table. (Formula (3) also divides by n: a slip, its f
    are shares of 1.)"""
    return sum(f * equal(sizes[table]) for table, f in frequencies.items()) / sum(frequencies.values())


def equal_sizes(n: int, p: int) -> list[int]:
    """ceil(n / p) groups of p; the last one takes what is left (the paper's n - p floor(n / p), which is 0 where p
    divides n)."""
    return [min(p, n - start) for start in range(0, n, p)]


def auxiliary_rows(sizes: Sequence[int], rows: int, fanout: int) -> int:
    """Rows of all auxiliary views over a chain of tables."""
    return sum(rows * int(fanout ** (size - 1)) for size in sizes)
