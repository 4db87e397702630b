"""C-TStrobe: C-Strobe that takes a source-local transaction as one.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", end of section
6 (named, not described).

The queue holds whole transactions. All deletes of one are key-deletes, one query asks for all its inserts, and its
answer is brought back to the state right after the transaction, as C-Strobe does for single changes; the view is shown
after each.

Needs: keys. Promised level: complete for source-local transactions.
"""

from __future__ import annotations

from weir.algorithms.base import KEYS, SINGLE_UPDATE, SOURCE_LOCAL, Facts
from weir.algorithms.c_strobe import CStrobe
from weir.messages import Update


class CTStrobe(CStrobe):
    """C-Strobe, a transaction at a time."""

    facts = Facts(
        12, "c-t-strobe", "Strobe 6", {SINGLE_UPDATE: "complete", SOURCE_LOCAL: "complete"}, "as c-strobe", (KEYS,)
    )

    def _changes(self, update: Update) -> list[Update]:
        return [update]
