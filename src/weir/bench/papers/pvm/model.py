"""The cost model of the PVM paper (sections 5 and 7): time and messages of SWEEP and PVM.

Symbols as in the paper's table 3: n updates, m sources, p updates in flight, q queries that all sources together can
work on at a time, t the time of one update (m - 1 queries), a the cost of starting a process (none in virtual time),
i the time between two updates.
"""

from __future__ import annotations


def time_of_update(m: int, query: float = 1.0) -> float:
    """t: one query after the other to every other source."""
    return (m - 1) * query


def sweep_time(n: int, t: float) -> float:
    """T_SWEEP = n t.

    >>> sweep_time(3, 4)
    12
    """
    return n * t


def wait(i: int, k: int, t: float, a: float = 0.0) -> float:
    """Wait(i): when the i-th update's process starts, k = min(p, q) being under way at a time.

    >>> [wait(i, 2, 10, 1) for i in (1, 2, 3, 4, 5)]
    [0, 1, 10, 11, 20]
    """
    return (i - 1) // k * t + (i - 1) % k * a


def pvm_time(n: int, p: int, q: int, t: float, a: float = 0.0) -> float:
    """T_PVM = the longest wait + t.

    >>> pvm_time(60, 4, 4, 3.0)
    45.0
    """
    k = min(p, q)
    return max(wait(i, k, t, a) for i in range(1, n + 1)) + t


def spaced_time(together: float, n: int, interval: float, t: float) -> float:
    """With an update every ``interval``: as if all came together, or else the last one's coming and its own time.

    The paper draws this (Figure 26) and tells it in words.
    """
    return max(together, (n - 1) * interval + t)


def remote_queries(n: int, m: int) -> int:
    """Every update asks every other source once."""
    return n * (m - 1)


def local_compensations(n: int, m: int) -> float:
    """Every pair of updates of different sources, once: the younger one is taken out of an answer to the older one.

    >>> local_compensations(60, 4)
    1350.0
    """
    return n * n * (m - 1) / (2 * m)
