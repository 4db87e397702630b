"""A node: the part of an algorithm that works at a source, next to the data.

Most algorithms live at the warehouse and ask. A token algorithm sends its work to the sources instead: at each of
them a node hears of the source's transactions, receives messages, reads its own source's tables, and sends messages
on. Whoever hosts it (the simulated source, a wrapper around a real one) calls it for one thing at a time, and answers
all its reads in the one state that the transactions it has heard of have led to.

A node is a value: what it does returns the node as it is afterwards and what it sends. So worlds share nodes until
they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from weir.algebra.bag import Bag
from weir.algebra.hops import Lookup
from weir.messages import NodeMessage, Send, Update

Read = Callable[[Lookup], Bag]  # answers a lookup from the node's own source


class Node(ABC):
    """One source's node. Frozen, and equal nodes behave alike."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Nothing has happened here that it has not passed on."""

    @abstractmethod
    def changed(self, update: Update) -> Reaction:
        """Its source has committed a transaction."""

    @abstractmethod
    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        """A message has arrived."""


Reaction = tuple[Node, tuple[Send, ...]]  # the node afterwards, and what it sends
