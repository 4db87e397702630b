"""The cost model of the ECA paper's section 6: messages, bytes and block reads of RV and ECA, as formulas.

The paper's symbols are kept as names here, for a reader who has it open: C tuples a relation, S bytes a view tuple,
sigma the share of joined tuples that pass the condition, J tuples per join value, K tuples a block, k updates, s
updates between two recomputations. Best and worst are timings of the same updates: ECA is best off when every query
is answered before the next update and worst when all updates come before any answer; RV when it recomputes once and
after every update.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

RV_BEST, RV_WORST, ECA_BEST, ECA_WORST = "RV best", "RV worst", "ECA best", "ECA worst"
SERIES = (RV_BEST, RV_WORST, ECA_BEST, ECA_WORST)


@dataclass(frozen=True)
class Parameters:
    """Table 1 of the paper, with its defaults."""

    C: int = 100
    S: int = 4
    sigma: float = 0.5
    J: int = 4
    K: int = 20

    @property
    def blocks(self) -> int:
        """``I``: the blocks of one relation."""
        return ceil(self.C / self.K)

    @property
    def double_blocks(self) -> int:
        """``I'``: how often two blocks must be filled to see one relation."""
        return ceil(self.C / (2 * self.K))


def messages(series: str, k: int, s: int | None = None) -> int:
    """Questions and answers; ``s`` stands for any rhythm of recomputation between RV's best and worst."""
    if series in (ECA_BEST, ECA_WORST):
        return 2 * k
    return 2 * ceil(k / (s or {RV_BEST: k, RV_WORST: 1}[series]))


def bytes_of_three_updates(series: str, p: Parameters) -> float:
    """Figure 6.2: one insert into each relation. Here the paper counts the compensating terms exactly: three."""
    tuples = {
        RV_BEST: p.C * p.J**2,
        RV_WORST: 3 * p.C * p.J**2,
        ECA_BEST: 3 * p.J**2,
        ECA_WORST: 3 * p.J * (p.J + 1),
    }
    return p.S * p.sigma * tuples[series]


def bytes_of_k_updates(series: str, k: int, p: Parameters) -> float:
    """Figure 6.3: k updates, each on any relation with equal chance."""
    tuples = {
        RV_BEST: p.C * p.J**2,
        RV_WORST: k * p.C * p.J**2,
        ECA_BEST: k * p.J**2,
        ECA_WORST: k * p.J**2 + k * (k - 1) * p.J / 3,
    }
    return p.S * p.sigma * tuples[series]


def reads_with_indexes(series: str, k: int, p: Parameters) -> float:
    """Figure 6.4: block reads with every join column indexed and ample memory, for J < I."""
    return {
        RV_BEST: 3 * p.blocks,
        RV_WORST: 3 * k * p.blocks,
        ECA_BEST: k * (p.J + 1),
        ECA_WORST: k * (p.J + 1) + k * (k - 1) / 3,
    }[series]


def reads_without_indexes(series: str, k: int, p: Parameters) -> float:
    """Figure 6.5: block reads with no index and three blocks of memory."""
    inner = p.blocks * p.double_blocks
    return {
        RV_BEST: p.blocks**3,
        RV_WORST: k * p.blocks**3,
        ECA_BEST: k * inner,
        ECA_WORST: k * inner + p.blocks * k * (k - 1) / 3,
    }[series]
