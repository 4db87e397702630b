"""How to reach a server: address, account, TLS. Picklable; holds a reference to the password, never the password."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import pymysql

from weir.algebra.errors import WeirError
from weir.sources.mysql.wire import widen_buffer
from weir.sources.secrets import Secret, mask, read_secret
from weir.sources.source import SourceError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SESSION = (  # what the server's defaults could change in an answer
    "SET time_zone = '+00:00', sql_mode = '', sql_quote_show_create = 1, sql_select_limit = 18446744073709551615"
)
KINDS = ("mariadb", "mariadb-locks", "mysql")


class Unreachable(SourceError):
    """No connection for now; nothing is lost by trying again later."""


@dataclass(frozen=True)
class MysqlOptions:
    """One source.

    ``kind``: ``mariadb`` reads the position of its snapshot; ``mariadb-locks`` and ``mysql`` lock the tables for the
    moment in which the snapshot opens. ``password`` is a reference (``env:NAME`` or ``file:PATH``). ``positions``:
    ``file``, or ``gtid`` to go on at another server of the same replication group. TLS: ``tls_ca`` is the file with
    the authority's certificate; ``verify``: ``full`` (certificate and host name), ``ca`` (certificate only) or
    ``off`` (encrypted, but to whomever).
    """

    name: str
    database: str
    user: str
    password: str = ""
    host: str = "127.0.0.1"
    port: int = 3306
    unix_socket: str = ""
    kind: str = "mariadb"
    positions: str = "file"
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    verify: str = "full"
    allow_plaintext: bool = False
    lock_seconds: int = 10  # at most so long for a lock that another session holds
    snapshot_seconds: float = 120  # at most so long until one opens at a sure place, or others' XA ones end
    connect_seconds: int = 10
    silence: float = 120.0  # seconds that an answer may say nothing before the connection is given up; 0: no limit
    server_id: int | None = None  # under which the binlog is read; one at random when None

    def __post_init__(self) -> None:
        _one_of(self.name, "kind", self.kind, KINDS)
        _one_of(self.name, "positions", self.positions, ("file", "gtid"))
        _one_of(self.name, "verify", self.verify, ("full", "ca", "off"))
        if self.positions == "gtid" and self.kind == "mysql":
            raise WeirError(f'source {self.name}: positions = "gtid" is for MariaDB; use positions = "file"')
        if not (self.encrypted or self.local or self.allow_plaintext):
            raise WeirError(
                f"source {self.name}: {self.host} is another machine and tls is off, so password and data would "
                "travel unencrypted: "
                f"set tls = true with tls_ca, or allow_plaintext = true if the network is trusted"
            )

    @property
    def encrypted(self) -> bool:
        return self.tls or bool(self.tls_ca)

    @property
    def local(self) -> bool:
        return bool(self.unix_socket) or self.host in LOOPBACK

    @property
    def locks(self) -> bool:
        return self.kind != "mariadb"

    def connect(self, **more: Any) -> Any:
        """A connection that commits each statement by itself, speaks UTF-8 and counts time in UTC."""
        address: dict[str, Any] = (
            {"unix_socket": self.unix_socket} if self.unix_socket else {"host": self.host, "port": self.port}
        )
        secret = read_secret(self.password, f"source {self.name}, password") if self.password else Secret("")
        try:
            connection = pymysql.connect(
                **address,
                user=self.user,
                password=secret.reveal(),
                database=self.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=self.connect_seconds,
                read_timeout=self.silence or None,
                write_timeout=self.silence or None,
                ssl=self._tls_context(),
                ssl_disabled=not self.encrypted,
                init_command=_SESSION,
                **more,
            )
        except (pymysql.MySQLError, OSError) as problem:
            raise Unreachable(
                f"source {self.name}: cannot connect to {self.where}: {mask(reason(problem), [secret])}"
            ) from None
        widen_buffer(connection)
        return connection

    @property
    def where(self) -> str:
        address = self.unix_socket or f"{self.host}:{self.port}"
        return f"{address}, database {self.database}, user {self.user}"

    def _tls_context(self) -> ssl.SSLContext | None:
        if not self.encrypted:
            return None
        context = ssl.create_default_context(cafile=self.tls_ca or None)
        context.check_hostname = self.verify == "full"
        context.verify_mode = ssl.CERT_NONE if self.verify == "off" else ssl.CERT_REQUIRED
        if self.tls_cert:
            context.load_cert_chain(self.tls_cert, self.tls_key or None)
        return context


def reason(problem: Exception) -> str:
    """The server's or the system's words, without the error number."""
    return str(problem.args[1]) if len(problem.args) > 1 else str(problem)


def _one_of(source: str, option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise WeirError(f'source {source}: {option} = "{value}" is not known; use one of {", ".join(known)}')
