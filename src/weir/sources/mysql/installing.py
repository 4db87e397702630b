"""``weir capture`` for MariaDB and MySQL: nothing is installed, only looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weir.sources.installing import Capture, StatusLine, status_of
from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource


@dataclass(frozen=True)
class MysqlCapture(Capture):
    """Nothing is installed: the server's own binlog is read."""

    options: MysqlOptions

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        nothing = ["nothing to install: the server's binlog is read"]
        return nothing + [state.text for state in self.status() if not state.well]

    def remove(self, dry_run: bool) -> list[str]:
        return ["nothing to remove: the server's binlog is read"]

    def status(self) -> list[StatusLine]:
        return status_of(MysqlSource(self.options))
