"""T-Strobe: Strobe that takes a source-local transaction as one.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", section 5.3,
algorithm 2.

All deletes of a transaction go to ``pending`` and to the action list together, and one query is asked for all its
inserts; what the transaction itself inserted and deleted again has cancelled out before it arrives here. So the action
list is never applied in the middle of a transaction.

**Transactions that arrive together** are taken as one longer transaction: their deletes, then one query for those of
their inserts that none of them deletes again (``keys.as_one``). A query that is asked after the last of them instead of
after its own is what a slow channel to the source would make of it, and the states between them need not be shown. So
a backlog costs as many questions as one transaction over the same tables, not as many as it has transactions.

Needs: keys. Promised level: strong for source-local transactions, weak for global ones (which it shows in parts).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.algorithms.base import GLOBAL, KEYS, SINGLE_UPDATE, SOURCE_LOCAL, Facts
from weir.algorithms.keys import as_one
from weir.algorithms.questions import per_table_and_hop
from weir.algorithms.strobe import Strobe
from weir.messages import Effect, Update


class TStrobe(Strobe):
    """Strobe, a transaction at a time."""

    facts = Facts(
        9, "t-strobe", "Strobe 5.3", {SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong", GLOBAL: "weak"},
        "O(n) per transaction", (KEYS,), per_table_and_hop,
    )  # fmt: skip

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.gathered: list[Update] = []  # what has arrived together, until all of it is in

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.gathered.append(update)
        yield from self.repeat(lambda: bool(self.gathered), self._process_gathered)

    def _process_gathered(self) -> Iterator[Effect]:
        gathered, self.gathered = self.gathered, []
        yield from self._process(as_one(self.view, gathered))
