"""Files: a folder of Parquet or CSV snapshots per table; the difference of two snapshots is one transaction."""

from weir.sources.files.options import FilesOptions
from weir.sources.files.source import FilesSource
from weir.sources.files.take import take_snapshot

__all__ = ["FilesOptions", "FilesSource", "take_snapshot"]
