"""SQLite: one file, its own trigger log, and transactions told apart by the write-ahead log."""

from weir.sources.sqlite.capture import install, remove
from weir.sources.sqlite.options import SqliteOptions
from weir.sources.sqlite.source import SqliteSource

__all__ = ["SqliteOptions", "SqliteSource", "install", "remove"]
