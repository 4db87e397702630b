"""What can go wrong with a view's table. Each message names the table and the way out."""

from __future__ import annotations

from weir.algebra.errors import WeirError


class StoreError(WeirError):
    """Base of the view store's errors."""


class BadColumns(StoreError):
    """A column that a Delta table cannot hold, or a batch that does not fit the view's columns."""


class NotAView(StoreError):
    """The path holds no Delta table, or one that Weir did not make."""


class Damaged(StoreError):
    """A file of a table is missing, cut off or overwritten: what the view was cannot be read from it any more."""


class CannotRead(StoreError):
    """The place itself refuses to be read. Nothing is known to be lost."""


class CannotWrite(StoreError):
    """The files or the commit could not be written. The table is as it was."""


class WriterConflict(StoreError):
    """Somebody else has appended to the view since this writer opened it."""


class Unsettled(StoreError):
    """A commit has decided for several tables, and one of them could not be brought up to it yet. Nothing is lost."""


class NoSuchState(StoreError):
    """The version, arrival or position asked for never was, or is no longer kept."""
