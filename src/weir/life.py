"""The life of a thing as a table: in which state it is, what may happen there, and where that leads.

Whoever has a life states its table on top of its own file; an event that the table does not have is refused, so a state
is never reached by a way that nobody has thought of.
"""

from __future__ import annotations

from collections.abc import Mapping

LifeTable = Mapping[str, Mapping[str, str]]  # state -> event -> next state


class CannotHappen(AssertionError):
    """An event that has no place in this state."""


class Life:
    """Where something is in its table.

    >>> door = Life({"open": {"shut": "closed"}, "closed": {"open": "open"}}, "open")
    >>> door.happens("shut")
    >>> door.state
    'closed'
    >>> door.happens("shut")
    Traceback (most recent call last):
    weir.life.CannotHappen: 'shut' cannot happen to what is closed
    """

    __slots__ = ("_table", "state")

    def __init__(self, table: LifeTable, state: str) -> None:
        self._table, self.state = table, state

    def allows(self, event: str) -> bool:
        return event in self._table[self.state]

    def happens(self, event: str) -> None:
        if not self.allows(event):
            raise CannotHappen(f"'{event}' cannot happen to what is {self.state}")
        self.state = self._table[self.state][event]
