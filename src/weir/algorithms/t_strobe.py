"""T-Strobe: Strobe that takes a source-local transaction as one.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", section 5.3,
algorithm 2.

All deletes of a transaction go to ``pending`` and to the action list together, and one query is asked for all its
inserts; what the transaction itself inserted and deleted again has cancelled out before it arrives here. So the action
list is never applied in the middle of a transaction.

Needs: keys. Promised level: strong for source-local transactions, weak for global ones (which it shows in parts).
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.algorithms.base import GLOBAL, KEYS, SINGLE_UPDATE, SOURCE_LOCAL, Facts
from weir.algorithms.strobe import Strobe
from weir.messages import Effect, Update


class TStrobe(Strobe):
    """Strobe, a transaction at a time."""

    facts = Facts(
        9, "t-strobe", "Strobe 5.3", {SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong", GLOBAL: "weak"},
        "O(n) per transaction", (KEYS,),
    )  # fmt: skip

    def on_update(self, update: Update) -> Iterator[Effect]:
        yield from self._process(update)
