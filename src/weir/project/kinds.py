"""The kinds of source by name: how to make options from a table of keys, and a source from the options.

``weir.toml``, ``Warehouse.source`` and ``weir capture`` all come through here. A kind's keys are the fields of its
options class, so there is one list of them; a driver is imported only when its kind is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast, get_type_hints
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, Field, create_model

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.project.keys import SECRET, STRICT, Problem, WrongKeys, checked
from weir.sources.installing import Capture
from weir.sources.secrets import read_secret
from weir.sources.source import Source

_FIELD = "key_"  # before a key's name in its model, where some names are pydantic's own
_OUR_OWN = ("name", "kind", "owner")  # fields that are not the user's keys


@dataclass(frozen=True)
class Kind:
    """A kind of source. ``options``, ``source`` and ``capture`` name classes as ``module:class``."""

    name: str
    options: str
    source: str
    capture: str = ""  # what ``weir capture`` installs, where there is something to install or to look at
    paths: tuple[str, ...] = ()  # keys that hold a path
    authority: str = ""  # the key of the file with the authority's certificate
    server: bool = True
    marks: bool = True  # whether a transaction can carry the identifier of a global one

    @property
    def options_class(self) -> type[Any]:
        return cast(type[Any], _load(self.options))

    @property
    def capture_class(self) -> type[Capture]:
        return cast(type[Capture], _load(self.capture))

    @property
    def keys(self) -> list[str]:
        """The keys that its table in ``weir.toml`` may have."""
        own = [each.name for each in fields(self.options_class) if each.name not in _OUR_OWN]
        return [*own, "dsn"] if self.server else own


_POSTGRES = "weir.sources.postgres"
_MYSQL = (
    "weir.sources.mysql.options:MysqlOptions", "weir.sources.mysql.source:MysqlSource",
    "weir.sources.mysql.installing:MysqlCapture", ("tls_ca", "tls_cert", "tls_key", "unix_socket"), "tls_ca",
)  # fmt: skip


def _postgres(name: str, source: str, capture: str) -> Kind:
    return Kind(
        name, f"{_POSTGRES}.options:PostgresOptions", f"{_POSTGRES}.{source}", f"{_POSTGRES}.installing:{capture}",
        ("sslrootcert", "sslcert", "sslkey"), "sslrootcert",
    )  # fmt: skip


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "sqlite", "weir.sources.sqlite.options:SqliteOptions", "weir.sources.sqlite.source:SqliteSource",
            "weir.sources.sqlite.installing:SqliteCapture", ("path",), server=False,
        ),
        _postgres("postgres", "replication:PostgresSource", "PostgresCapture"),
        _postgres("postgres-triggers", "triggers:PostgresTriggersSource", "PostgresTriggersCapture"),
        Kind("mariadb", *_MYSQL),
        Kind("mariadb-locks", *_MYSQL),
        Kind("mysql", *_MYSQL),
        Kind(
            "files", "weir.sources.files.options:FilesOptions", "weir.sources.files.source:FilesSource",
            paths=("folder", "work"), server=False, marks=False,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class SourceSpec:
    """A source as its user describes it. Picklable; ``open`` makes a connection, here or in another process."""

    name: str
    kind: str
    options: Any = field(repr=False)

    def open(self, spark: Any = None) -> Source:
        """A source of one's own. ``spark`` is the session in which the kind ``files`` compares; others need none."""
        make = _load(KINDS[self.kind].source)
        return cast(Source, make(self.options, spark) if self.kind == "files" else make(self.options))

    def owned_by(self, owner: str) -> SourceSpec:
        """The same source, as this warehouse reads it: what it owns there bears its mark (``sources/ownership.py``)."""
        owns = "owner" in {each.name for each in fields(self.options)}
        return replace(self, options=replace(self.options, owner=owner)) if owns else self

    @property
    def marks(self) -> bool:
        """Whether its transactions can say that they are a part of a global one."""
        return KINDS[self.kind].marks

    @property
    def place(self) -> str:
        """Where it is, for people."""
        if not KINDS[self.kind].server:
            return str(getattr(self.options, "path", "") or getattr(self.options, "folder", ""))
        where = getattr(self.options, "unix_socket", "") or f"{self.options.host}:{self.options.port}"
        return f"{where}/{self.options.database}"


def kind_named(name: object) -> Kind:
    if not isinstance(name, str) or name not in KINDS:
        raise WeirError(f"unknown kind '{name}'; {did_you_mean(str(name), KINDS, 'use one of')}")
    return KINDS[name]


def specify(name: str, kind: str, table: Mapping[str, Any], folder: Path | None = None) -> SourceSpec:
    """A source from its keys. Relative paths begin at ``folder``."""
    found, where = kind_named(kind), f"source {name}"
    given = _without_dsn(found, dict(table), where)
    model = checked(_model(found.name), given, where)
    values = {key.removeprefix(_FIELD): getattr(model, key) for key in model.model_fields_set}
    _check_references(values, where)
    own = {"kind": kind} if "kind" in {each.name for each in fields(found.options_class)} else {}
    if folder is not None:
        values = {key: _placed(found, key, value, folder) for key, value in values.items()}
    return SourceSpec(name, kind, found.options_class(name=name, **own, **values))


def _without_dsn(kind: Kind, table: dict[str, Any], where: str) -> dict[str, Any]:
    """The keys without ``dsn``, which is taken apart; other keys win over it."""
    dsn = table.pop("dsn", "") if kind.server else ""
    try:
        return dsn_keys(str(dsn)) | table
    except WeirError as problem:
        raise WrongKeys(where, [Problem(("dsn",), str(problem))]) from None


def dsn_keys(dsn: str) -> dict[str, Any]:
    """The keys that a DSN stands for.

    >>> dsn_keys("postgresql://weir@db:5433/shop")
    {'host': 'db', 'port': 5433, 'user': 'weir', 'database': 'shop'}
    """
    try:
        parts = urlsplit(dsn)
        port = parts.port
    except ValueError:
        raise WeirError("the dsn cannot be read; write it as postgresql://user@host:5432/database") from None
    if parts.password is not None:
        raise WeirError("a dsn must not hold the password, which others could see; use password 'env:NAME'")
    found = {
        "host": parts.hostname, "port": port, "user": unquote(parts.username or ""),
        "database": unquote(parts.path.removeprefix("/")),
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}


def _check_references(values: Mapping[str, Any], where: str) -> None:
    """A credential in clear text is refused here and now; a good reference is read only to connect."""
    for key in SECRET:
        value = values.get(key, "")
        if value and value.partition(":")[0] not in ("env", "file"):
            try:
                read_secret(value, key)
            except WeirError as problem:
                raise WrongKeys(where, [Problem((key,), str(problem))]) from None


def _placed(kind: Kind, key: str, value: Any, folder: Path) -> Any:
    if key in SECRET and value.startswith("file:"):
        return "file:" + os.path.join(folder, os.path.expanduser(value.removeprefix("file:")))
    return os.path.join(folder, os.path.expanduser(value)) if key in kind.paths and value else value


@cache
def _model(kind: str) -> type[BaseModel]:
    """The kind's keys as a pydantic model, from the fields of its options class."""
    options = KINDS[kind].options_class
    hints, keys = get_type_hints(options), {}
    for each in fields(options):
        if each.name not in _OUR_OWN:
            needed = each.default is MISSING and each.default_factory is MISSING
            keys[_FIELD + each.name] = (hints[each.name], Field(... if needed else None, alias=each.name))
    return cast(type[BaseModel], create_model(f"Keys of {kind}", __config__=STRICT, **cast(Any, keys)))


def _load(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return cast(Callable[..., Any], getattr(import_module(module), name))
