"""The view of the soak, kept by hand in plain Python: what each transaction changes in it.

It shares no code with the engine, so that an error there is not made here again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from weir.proving.soak.journal import JournalChange, JournalRow

SELECT = (
    "SELECT i.id AS item, i.quantity, o.id AS order_id, o.status, c.id AS customer, c.name "
    "FROM shop.item i JOIN sales.orders o ON o.id = i.order_id JOIN crm.customer c ON c.id = o.customer"
)
COLUMNS = ("item", "quantity", "order_id", "status", "customer", "name")
JournalRows = Counter[JournalRow]


class ShopReplay:
    """Three tables by key, with the way from a customer to its orders and from an order to its items."""

    def __init__(self) -> None:
        self.customers: dict[int, JournalRow] = {}  # (name)
        self.orders: dict[int, JournalRow] = {}  # (customer, status)
        self.items: dict[int, JournalRow] = {}  # (order, quantity)
        self._orders_of: defaultdict[int, set[int]] = defaultdict(set)
        self._items_of: defaultdict[int, set[int]] = defaultdict(set)

    def apply(self, source: str, changes: Iterable[JournalChange]) -> JournalRows:
        """One transaction; the change of the view, rows that come positive and rows that go negative."""
        delta: JournalRows = Counter()
        for key, row in changes:
            delta.subtract(self._around(source, key))
            self._put(source, key, row)
            delta.update(self._around(source, key))
        return Counter({row: count for row, count in delta.items() if count})

    def value(self) -> JournalRows:
        """The whole view."""
        return Counter(row for key in self.items for row in self._of_item(key))

    def _around(self, source: str, key: int) -> list[JournalRow]:
        """The view's rows that this row of the source has a part in."""
        if source == "shop":
            return list(self._of_item(key))
        orders = [key] if source == "sales" else self._orders_of[key]
        return [row for order in orders for item in self._items_of[order] for row in self._of_item(item)]

    def _of_item(self, key: int) -> Iterator[JournalRow]:
        item = self.items.get(key)
        order = None if item is None else self.orders.get(item[0])
        customer = None if order is None else self.customers.get(order[0])
        if item is not None and order is not None and customer is not None:
            yield (key, item[1], item[0], order[1], order[0], customer[0])

    def _put(self, source: str, key: int, row: JournalRow | None) -> None:
        match source:
            case "crm":
                _set(self.customers, key, row)
            case "sales":
                _move(self._orders_of, self.orders.get(key), row, key)
                _set(self.orders, key, row)
            case _:
                _move(self._items_of, self.items.get(key), row, key)
                _set(self.items, key, row)


def _set(table: dict[int, JournalRow], key: int, row: JournalRow | None) -> None:
    if row is None:
        table.pop(key, None)
    else:
        table[key] = row


def _move(index: defaultdict[int, set[int]], old: JournalRow | None, new: JournalRow | None, key: int) -> None:
    """``key`` hangs below another row now; the first column says which."""
    if old is not None:
        index[old[0]].discard(key)
    if new is not None:
        index[new[0]].add(key)
