"""What differs between MariaDB, MySQL and their versions, from the text of ``SELECT VERSION()``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from weir.sources.source import SourceError

OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}


@dataclass(frozen=True)
class Version:
    """
    >>> Version.parse("10.11.6-MariaDB-0+deb12u1-log")
    Version(product='MariaDB', number=(10, 11, 6))
    >>> Version.parse("8.4.2").log_status
    'SHOW BINARY LOG STATUS'
    """

    product: str
    number: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Version:
        numbers = re.findall(r"(\d+)\.(\d+)\.(\d+)", text)
        if not numbers:
            raise SourceError(f"the server gives its version as '{text}', which is not MariaDB's or MySQL's")
        if "mariadb" in text.lower():  # old replicas put "5.5.5-" in front
            real = numbers[1] if len(numbers) > 1 and numbers[0] == ("5", "5", "5") else numbers[0]
            return cls("MariaDB", tuple(map(int, real)))
        return cls("MySQL", tuple(map(int, numbers[0])))

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.number))}"

    @property
    def is_mariadb(self) -> bool:
        return self.product == "MariaDB"

    @property
    def supported(self) -> bool:
        return self.number >= OLDEST[self.product]

    @property
    def log_status(self) -> str:
        """The statement that tells the end of the binlog: MySQL renamed it in 8.2 and dropped the old name in 8.4."""
        renamed = not self.is_mariadb and self.number >= (8, 2)
        return "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS"

    @property
    def log_right(self) -> str:
        """The right that this statement needs."""
        return "BINLOG MONITOR" if self.is_mariadb and self.number >= (10, 5) else "REPLICATION CLIENT"

    @property
    def no_wait(self) -> int:
        """The shortest lock_wait_timeout, in seconds: MySQL has no zero."""
        return 0 if self.is_mariadb else 1
