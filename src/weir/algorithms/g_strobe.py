"""G-Strobe: T-Strobe that never shows part of a global transaction.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", section 5.4.

The action list is applied only when (1) no query is open, (2) every transaction in it is wholly received: all parts of
a global transaction, from all its sources, and (3) everything these depend on is in. A transaction depends on what
came before it at its sources; each source's transactions arrive in its own order, so (3) follows from (2): what came
before a received part has been received, and if that belongs to a global transaction, (2) asks for the rest of it.

Needs: keys, and global transactions whose parts carry an identifier and the list of their sources. Promised level:
strong, also for global transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.algorithms.base import GLOBAL, GLOBAL_IDENTIFIERS, KEYS, SINGLE_UPDATE, SOURCE_LOCAL, Facts
from weir.algorithms.questions import per_table_and_hop
from weir.algorithms.t_strobe import TStrobe
from weir.messages import Effect, Update


class GStrobe(TStrobe):
    """T-Strobe that waits for whole global transactions."""

    facts = Facts(
        10, "g-strobe", "Strobe 5.4", {SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong", GLOBAL: "strong"},
        "O(n) per transaction", (KEYS, GLOBAL_IDENTIFIERS), per_table_and_hop,
    )  # fmt: skip

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.missing: dict[str, frozenset[str]] = {}  # global transaction begun -> sources whose part is not in yet

    def on_update(self, update: Update) -> Iterator[Effect]:
        if update.part_of is not None:
            still = self.missing.pop(update.part_of.identifier, update.part_of.sources) - {update.source}
            if still:
                self.missing[update.part_of.identifier] = still
        yield from super().on_update(update)

    def _may_apply(self) -> bool:
        return super()._may_apply() and not self.missing
