"""A project folder: ``weir.toml`` (warehouse, Spark, sources) and ``views/*.sql``, one view each.

``Project.read`` checks all that can be known without connecting: keys and their types, kinds and their options, the
head and the syntax of every view. What is wrong is named by file, line and key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from weir.algebra.definition import Definition
from weir.algebra.errors import ViewError, WeirError
from weir.algebra.header import SHAPE, read_header
from weir.algebra.refusals import read_selects
from weir.algebra.suggestion import did_you_mean
from weir.project.keys import STRICT, Problem, WrongKeys, checked
from weir.project.kinds import KINDS, SourceSpec, specify
from weir.sources.secrets import read_secret

FILE, VIEWS = "weir.toml", "views"
_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_CREDENTIALS = ("secret", "token", "password", "access_key", "account_key")
_SOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ProjectError(WeirError):
    """A project folder cannot be used as it is."""


class SparkKeys(BaseModel):
    """Where Spark runs: a ``master`` (``local[*]``, ``spark://...``) or a Spark Connect address (``remote``)."""

    model_config = STRICT
    master: str = "local[*]"
    remote: str = ""
    settings: dict[str, str] = {}

    @property
    def place(self) -> str:
        """Where Spark runs: a Spark Connect server, or else a master."""
        return self.remote or self.master


class RunKeys(BaseModel):
    """How rounds are formed."""

    model_config = STRICT
    max_age: float = Field(default=0.0, ge=0)  # seconds to wait for more changes before a round
    max_batch: int = Field(default=10_000, ge=1)  # transactions swept together
    poll: float = Field(default=0.05, gt=0)  # seconds between two looks at an idle source
    compact_after: float = Field(default=0.1, gt=0)  # share of the log in a view
    keep_days: float = Field(default=0.0, ge=0)  # how long old states can be read; 0: for ever
    metrics_port: int = Field(default=0, ge=0, le=65_535)  # 0: off


class WarehouseKeys(BaseModel):
    """Where the Delta tables lie; ``storage`` holds the options of an object store."""

    model_config = STRICT
    path: str = "warehouse"
    storage: dict[str, str] = {}


class _File(BaseModel):
    model_config = STRICT
    warehouse: WarehouseKeys = WarehouseKeys()
    spark: SparkKeys = SparkKeys()
    run: RunKeys = RunKeys()
    sources: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class ViewText:
    """A view's definition and the file it stands in (None: it came from Python)."""

    name: str
    path: Path | None
    text: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, path: Path | None = None) -> ViewText:
        """Checks the head and the syntax; tables and columns need a catalog."""
        with_place = f"{VIEWS}/{path.name}" if path is not None else ""
        try:
            definition = Definition.of(text)
            header = read_header(definition)
            read_selects(definition, header.body)
        except ViewError as problem:
            raise placed(problem, with_place) from None
        return cls(header.name, path, text, header.options)

    @property
    def place(self) -> str:
        """For messages."""
        return f"{VIEWS}/{self.path.name}" if self.path is not None else f"view {self.name}"


def placed(problem: ViewError, place: str) -> ViewError:
    """The same error, with the file it is in."""
    said = f"{place}: {problem.problem}" if place else problem.problem
    return ViewError(said, problem.way_out, problem.text, problem.start, problem.end)


@dataclass(frozen=True)
class Project:
    """All that a project folder says."""

    folder: Path
    warehouse_path: str
    storage: Mapping[str, str]  # references still: see ``storage_options``
    spark: SparkKeys
    run: RunKeys
    sources: Mapping[str, SourceSpec]
    views: Mapping[str, ViewText]

    @classmethod
    def read(cls, folder: str | os.PathLike[str] = ".") -> Project:
        """The project of this folder, as its ``weir.toml`` and the files below ``views`` say."""
        place = Path(folder).absolute()
        file = _read_file(place)
        return cls(
            place,
            _warehouse_path(place, file.warehouse.path),
            file.warehouse.storage,
            file.spark,
            file.run,
            _Sources(place).specify(file.sources),
            _read_views(place / VIEWS),
        )

    def storage_options(self) -> dict[str, str]:
        """The object store's options, credentials read."""
        place = f"{FILE}, warehouse.storage"
        return {
            key: read_secret(value, f"{place}.{key}").reveal() if value.startswith(("env:", "file:")) else value
            for key, value in self.storage.items()
        }

    def view(self, name: str) -> ViewText:
        if name not in self.views:
            none = f"{self.folder / VIEWS} holds no view"
            known = did_you_mean(name, self.views, "the views are") if self.views else none
            raise ProjectError(f"there is no view '{name}' in {self.folder}; {known}")
        return self.views[name]


# -- weir.toml --------------------------------------------------------------------------------------------------------


def _read_file(folder: Path) -> _File:
    try:
        file = checked(_File, _toml(folder), FILE)
    except WrongKeys as wrong:
        raise _told(folder, wrong.problems) from None
    if problems := [*_two_places(file.spark), *_open_credentials(file.warehouse.storage)]:
        raise _told(folder, problems)
    return file


def _two_places(spark: SparkKeys) -> Iterator[Problem]:
    if spark.remote and "master" in spark.model_fields_set:
        yield Problem(("spark", "remote"), "both master and remote are given; keep the one where Spark shall run")


def _open_credentials(storage: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in storage.items():
        if any(word in key.lower() for word in _CREDENTIALS) and not value.startswith(("env:", "file:")):
            text = f"{key} is a credential and must not stand in the file itself; write 'env:NAME' or 'file:PATH'"
            yield Problem(("warehouse", "storage", key), text)


def _toml(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProjectError(
            f"there is no {FILE} in {folder}; go to a project's folder, name one by --project DIR, or make one: "
            f"weir init DIR"
        ) from None
    except UnicodeDecodeError:
        raise ProjectError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as problem:
        raise ProjectError(f"{path} cannot be read: {problem.strerror}") from None
    except tomllib.TOMLDecodeError as problem:
        raise ProjectError(
            f"{path} is not TOML: {problem}; text stands in double quotes, tables begin with [name]"
        ) from None


def _told(folder: Path, problems: Iterable[Problem]) -> ProjectError:
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    return ProjectError("\n".join(_located(lines, problem) for problem in problems))


def _located(lines: list[str], problem: Problem) -> str:
    """The problem with its line and table, as far as they can be found."""
    *tables, _ = problem.path
    number = _line_of(lines, problem.path)
    table = f" [{'.'.join(tables)}]" if tables else ""
    return f"{FILE}{f', line {number}' if number else ''}:{table} {problem.text}"


def _line_of(lines: list[str], path: tuple[str, ...]) -> int | None:
    """The line of the key; failing that (it is missing, or a table) the line of its table's head."""
    table: tuple[str, ...] = ()
    head = None
    for number, line in enumerate(lines, start=1):
        if match := _HEADER.match(line):
            table = tuple(part.strip().strip("\"'") for part in match[1].split("."))
            head = number if table in (path, path[:-1]) and head is None else head
        elif table == path[: len(table)] and _sets(line, path[len(table) :]):
            return number
    return head


def _sets(line: str, path: tuple[str, ...]) -> bool:
    """Whether a line of a table begins with the first of these keys."""
    return bool(path) and re.match(rf"""\s*["']?{re.escape(path[0])}["']?\s*[.=]""", line) is not None


def _warehouse_path(folder: Path, path: str) -> str:
    return path if "://" in path else os.path.join(folder, os.path.expanduser(path))


# -- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sources:
    folder: Path

    def specify(self, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, SourceSpec]:
        problems: list[Problem] = []
        found = {}
        for name, table in tables.items():
            try:
                found[name] = self._one(name, dict(table))
            except WrongKeys as wrong:
                problems += [Problem(("sources", name, *each.path), each.text) for each in wrong.problems]
            except WeirError as problem:  # what an options class itself refuses
                problems.append(Problem(("sources", name, ""), str(problem)))
        if problems:
            raise _told(self.folder, problems)
        return found

    def _one(self, name: str, table: dict[str, Any]) -> SourceSpec:
        if not _SOURCE_NAME.fullmatch(name):
            text = f"'{name}' cannot name a source; use letters, digits and underscores, and begin with a letter"
            raise WrongKeys(name, [Problem((), text)])
        kind = table.pop("kind", None)
        if kind is None:
            text = f"the key 'kind' is missing; add kind = \"...\": one of {', '.join(KINDS)}"
            raise WrongKeys(name, [Problem(("kind",), text)])
        if kind not in KINDS:
            text = f"unknown kind '{kind}'; {did_you_mean(str(kind), KINDS, 'use one of')}"
            raise WrongKeys(name, [Problem(("kind",), text)])
        return specify(name, kind, table, self.folder)


# -- views ------------------------------------------------------------------------------------------------------------


def _read_views(folder: Path) -> dict[str, ViewText]:
    views: dict[str, ViewText] = {}  # by name without case, as Spark SQL reads it
    for path in sorted(folder.glob("*.sql")):
        view = ViewText.read(_text(path), path)
        other = views.setdefault(view.name.lower(), view)
        if other is not view:
            both = f"{other.place} and {view.place}"
            raise ProjectError(f"view '{view.name}' is defined twice, in {both}; rename one of them")
    return {view.name: view for view in views.values()}


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ProjectError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as problem:
        raise ProjectError(f"{path} cannot be read: {problem.strerror}") from None
    if not text.strip():
        raise ProjectError(f"{VIEWS}/{path.name} is empty. {SHAPE}")
    return text
