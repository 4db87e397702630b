"""How to reach a PostgreSQL source: address, role, TLS, slot. Picklable: tasks open connections of their own.

Passwords are references (``env:NAME``, ``file:PATH``), resolved only to connect, and never shown. A connection that
leaves this machine is encrypted and the server's certificate checked (``sslmode = "verify-full"``), unless the options
say otherwise; without any encryption only with ``allow_plaintext = true``.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

from weir.sources.ownership import own_name
from weir.sources.source import SourceError

ENCRYPTED = ("require", "verify-ca", "verify-full")
MODES = ("disable", "allow", "prefer", *ENCRYPTED)
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
MARKER_TABLE = "weir_global_transaction"


@dataclass(frozen=True)
class PostgresOptions:
    """One source's connection. ``host`` may be a folder (a unix socket)."""

    name: str
    database: str
    host: str = "localhost"
    port: int = 5432
    user: str = ""
    password: str = field(default="", repr=False)  # a reference: env:NAME or file:PATH
    schema: str = "public"
    slot: str = "weir"  # how its name begins; the warehouse's own mark follows
    publication: str = "weir"
    log_schema: str = "weir"  # kind postgres-triggers: where the log lives
    sslmode: str = ""  # "" is verify-full for another host, prefer for this one
    sslrootcert: str = ""
    sslcert: str = ""
    sslkey: str = ""
    allow_plaintext: bool = False
    connect_timeout: int = 10
    silence: float = 120.0  # seconds that an answer may say nothing before the connection is given up; 0: no limit
    lock_timeout: float = 30.0  # seconds a visit waits for a table that is locked exclusively (TRUNCATE, DDL)
    load_timeout: float = 600.0  # seconds a first load waits for older transactions to end
    owner: str = ""  # the warehouse that reads it (``sources/ownership.py``)

    def __post_init__(self) -> None:
        if not _SLOT.fullmatch(self.slot):
            raise SourceError(f"{self.name}: slot '{self.slot}' is no slot name: a-z, 0-9 and _, at most 63 of them")
        if self.sslmode and self.sslmode not in MODES:
            raise SourceError(f"{self.name}: sslmode '{self.sslmode}' does not exist: use one of {', '.join(MODES)}")
        if self.mode not in ENCRYPTED and not self.allow_plaintext and not self.is_local:
            raise SourceError(
                f"{self.name}: sslmode '{self.mode}' may send data and password in plain text to {self.host}; "
                'use sslmode = "verify-full", or say allow_plaintext = true'
            )

    @property
    def own_slot(self) -> str:
        """The slot of this source of this warehouse."""
        return own_name(self.slot, self.name, self.owner)

    @property
    def mode(self) -> str:
        return self.sslmode or ("prefer" if self.is_local or self.allow_plaintext else "verify-full")

    @property
    def is_local(self) -> bool:
        """Whether every host is this machine: a socket folder or a loopback address."""
        return all(_is_loopback(host.strip()) for host in self.host.split(","))

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.host}:{self.port}/{self.database}"


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
