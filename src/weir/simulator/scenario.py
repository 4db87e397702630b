"""Scenarios: files that say what there is, what happens, in which orders, and what must come of it.

A scenario is a TOML file:

    title = "an insert anomaly"
    global_identifiers = true        # the default; false: updates do not tell which global transaction they are part of
    view = "CREATE MATERIALIZED VIEW v AS SELECT r1.W FROM s.r1 JOIN s.r2 USING (X)"

    [tables."s.r1"]
    columns = "W int, X int"
    key = ["W"]                      # optional; so are foreign_keys and indexes
    rows = "(1, 2) (4, 2)"

    [[transactions]]                 # per source in this order; 'global = "G"' makes parts of one global transaction
    name = "U1"
    source = "s"
    changes = "+r2(2, 3) -r1(1, 2)"

    [[schedules]]                    # listed permutations; what they leave open happens in the default order
    name = "both before either question is answered"
    steps = ["U1", "U2", "deliver s", "deliver s"]
    [schedules.expect.basic]         # per algorithm: the end, the states on the way, the level
    end = "(1) 2*(4)"
    level = "none"

    [expect]                         # over every schedule: the level each algorithm holds
    eca = "strong"

Rows are written as SQL literals: numbers, 'text', TRUE, NULL; other types as text in the form Spark prints.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from weir.algebra.catalog import Catalog, ForeignKey, Relation, Table
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algebra.query import Query
from weir.algebra.sql import parse_view
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.algorithms.base import Algorithm, Setting
from weir.algorithms.procedure import Memory
from weir.consistency.history import SourceHistory
from weir.consistency.lattice import Lattice
from weir.consistency.levels import level
from weir.consistency.replay import AnyVector
from weir.messages import Change, GlobalTransaction, Update
from weir.simulator.constraints import require_constraints
from weir.simulator.literals import parse_changes, parse_rows, write_row, write_rows
from weir.simulator.source import SimulatedSource, TableBags, empty_tables, evaluate_at
from weir.simulator.step import Schedule, parse_step
from weir.simulator.world import World


@dataclass(frozen=True)
class Expectation:
    """What a listed schedule must lead to; None where the file does not say."""

    end: MemoryBag | None = None
    states: tuple[MemoryBag, ...] | None = None
    level: str | None = None


@dataclass(frozen=True)
class ListedSchedule:
    """One permutation written in the file."""

    name: str
    steps: Schedule
    expect: Mapping[str, Expectation] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """Everything but the schedule: sources with their scripts, and the view."""

    title: str
    view_text: str
    tables: Mapping[Relation, Table]
    rows: Mapping[Relation, MemoryBag]
    updates: tuple[Update, ...]  # all sources', in the order of the file
    fifo: bool = True
    schedules: tuple[ListedSchedule, ...] = ()
    expect: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    global_identifiers: bool = True  # whether updates tell what they are part of; the checker always knows

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog(self.tables)

    @cached_property
    def view(self) -> View:
        return parse_view(self.view_text, self.catalog)

    @cached_property
    def sources(self) -> dict[str, SimulatedSource]:
        return {name: self._source(name) for name in self.catalog.sources}

    def _source(self, name: str) -> SimulatedSource:
        own = {relation: bag for relation, bag in self.rows.items() if relation.source == name}
        tables: TableBags = {**empty_tables(self.catalog, name), **own}
        script = self._script(name)
        if not self.global_identifiers:
            script = tuple(replace(update, part_of=None) for update in script)
        return SimulatedSource(name, tables, script)

    def _script(self, name: str) -> tuple[Update, ...]:
        return tuple(update for update in self.updates if update.source == name)

    @cached_property
    def lattice(self) -> Lattice:
        """Where a view state of this scenario may stand; shared by every history of it."""
        histories = tuple(SourceHistory(s.name, self._script(s.name), s.states[0]) for s in self.sources.values())
        return Lattice(histories, AnyVector(self.view, histories))

    def begin(self, algorithm: type[Algorithm], unchecked: bool = False, **options: Any) -> World:
        """A world at its start: the view and whatever else the algorithm keeps are loaded, nothing has happened yet.

        ``unchecked`` lets an algorithm run outside its needs, to show what happens then.
        """
        if not unchecked:
            algorithm.check(self.view, Setting(self.global_identifiers))
        queries = algorithm.auxiliary_for(self.view, **options)
        machine = algorithm(self.view, {name: self._at_start(query) for name, query in queries.items()}, **options)
        machine.memory = Memory()
        return World(self.sources, machine, self._at_start(machine.definition), self.fifo)

    def _at_start(self, query: Query) -> MemoryBag:
        """A query over the sources' initial states."""
        tables = {relation: bag for source in self.sources.values() for relation, bag in source.states[0].items()}
        return evaluate_at(tables, query)[0]


def load(path: Path) -> Scenario:
    """Reads a scenario file; every mistake is named with its place."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise WeirError(f"cannot read the scenario {path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise WeirError(f"{path} is not a TOML file: {problem}") from None
    try:
        scenario = parse(data)
        parse_view(scenario.view_text, scenario.catalog)  # a wrong view is a mistake of this file: say so now
        return scenario
    except WeirError as problem:
        problem.args = (f"{path}: {problem}",)
        raise


def parse(data: Mapping[str, Any]) -> Scenario:
    """A scenario from a file's content."""
    tables = {_relation(name): _table(name, entry) for name, entry in _entry(data, "tables", dict).items()}
    rows = {r: parse_rows(data["tables"][str(r)].get("rows", ""), t.schema) for r, t in tables.items()}
    updates = _updates(_optional(data, "transactions", list), tables)
    shell = Scenario(_entry(data, "title", str), _entry(data, "view", str), tables, rows, updates)
    for source in shell.sources.values():
        require_constraints(source, tables)
    listed = tuple(_schedule(entry, shell) for entry in _optional(data, "schedules", list))
    channels = data.get("channels", "fifo")
    if channels not in ("fifo", "reorder"):
        raise WeirError(f"channels = '{channels}' is unknown; use 'fifo' or 'reorder'")
    identified = data.get("global_identifiers", True)
    if not isinstance(identified, bool):
        raise WeirError(f"global_identifiers = {identified!r} must be true or false")
    expect = {name: level(expected).name for name, expected in _optional(data, "expect", dict).items()}
    return replace(
        shell, fifo=channels == "fifo", schedules=listed, expect=expect, note=data.get("note", ""),
        global_identifiers=identified,
    )  # fmt: skip


def _entry(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind):
        raise WeirError(f"a scenario needs '{name}' ({'a table' if kind is dict else 'a text'})")
    return value


def _optional(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name, kind())
    if not isinstance(value, kind):
        raise WeirError(f"'{name}' must be written {f'[{name}]' if kind is dict else f'[[{name}]]'}")
    return value


def _relation(name: str) -> Relation:
    source, _, table = name.partition(".")
    if not (source and table):
        raise WeirError(f"table '{name}' must be written source.table")
    return Relation(source, table)


def _table(name: str, entry: Mapping[str, Any]) -> Table:
    if not isinstance(entry.get("columns"), str):
        raise WeirError(f"table '{name}' needs columns = \"name type, ...\"")
    foreign = tuple(
        ForeignKey(tuple(key["columns"]), key["table"], tuple(key["references"]))
        for key in entry.get("foreign_keys", [])
    )
    schema = Schema.parse(entry["columns"])
    key = tuple(entry.get("key", ()))
    schema.positions(key)  # refuses a key column that does not exist
    return Table(_relation(name), schema, key, foreign, tuple(tuple(index) for index in entry.get("indexes", [])))


def _updates(entries: Sequence[Mapping[str, Any]], tables: Mapping[Relation, Table]) -> tuple[Update, ...]:
    sources: dict[str, set[str]] = {}
    for entry in entries:
        for needed in ("name", "source", "changes"):
            if needed not in entry:
                raise WeirError(f"a transaction needs '{needed}': {dict(entry)}")
        if "global" in entry:
            sources.setdefault(entry["global"], set()).add(entry["source"])
    count: dict[str, int] = {}
    updates = []
    for entry in entries:
        source = entry["source"]
        count[source] = count.get(source, 0) + 1
        group = entry.get("global")
        part_of = GlobalTransaction(group, frozenset(sources[group])) if group else None
        changes = _changes(entry["changes"], source, tables)
        updates.append(Update(source, count[source], changes, entry["name"], part_of))
    names = [update.name for update in updates]
    if len(set(names)) < len(names):
        raise WeirError(f"two transactions have the same name: {', '.join(names)}")
    return tuple(updates)


def _changes(text: str, source: str, tables: Mapping[Relation, Table]) -> tuple[Change, ...]:
    """``+r(1, 2) -r(3, 4)`` netted per table."""
    deltas: dict[Relation, MemoryBag] = {}
    for sign, table, values in parse_changes(text):
        relation = Relation(source, table)
        if relation not in tables:
            raise WeirError(f"'{text}' changes {relation}, which is not among the scenario's tables")
        row = parse_rows(values, tables[relation].schema).scale(sign)
        deltas[relation] = deltas[relation] + row if relation in deltas else row
    parts = ((relation, delta.positive(), (-delta).positive()) for relation, delta in deltas.items())
    return tuple(Change(r, i if len(i) else None, d if len(d) else None) for r, i, d in parts if len(i) or len(d))


def _schedule(entry: Mapping[str, Any], scenario: Scenario) -> ListedSchedule:
    names = [update.name for update in scenario.updates]
    steps = tuple(parse_step(text, names) for text in entry.get("steps", []))
    expect = {name: _expectation(item, scenario) for name, item in entry.get("expect", {}).items()}
    return ListedSchedule(entry.get("name", "schedule"), steps, expect)


def _expectation(entry: Mapping[str, Any], scenario: Scenario) -> Expectation:
    schema = scenario.lattice.final_value.schema
    end = parse_rows(entry["end"], schema) if "end" in entry else None
    states = tuple(parse_rows(text, schema) for text in entry["states"]) if "states" in entry else None
    return Expectation(end, states, level(entry["level"]).name if "level" in entry else None)


def write(scenario: Scenario) -> str:
    """The scenario as a file: what exploration prints when a schedule fails."""
    lines = [f"title = {_quote(scenario.title)}"]
    if scenario.note:
        lines.append(f"note = {_quote(scenario.note)}")
    lines.append(f"view = {_quote(scenario.view_text)}")
    if not scenario.fifo:
        lines.append('channels = "reorder"')
    if not scenario.global_identifiers:
        lines.append("global_identifiers = false")
    for relation, table in scenario.tables.items():
        lines += ["", f'[tables."{relation}"]', f"columns = {_quote(str(table.schema))}"]
        lines += [f"key = {_list(table.key)}"] if table.key else []
        if table.foreign_keys:
            keys = (
                f"{{columns = {_list(k.columns)}, table = {_quote(k.table)}, references = {_list(k.references)}}}"
                for k in table.foreign_keys
            )
            lines.append(f"foreign_keys = [{', '.join(keys)}]")
        lines += [f"indexes = [{', '.join(map(_list, table.indexes))}]"] if table.indexes else []
        lines.append(f"rows = {_quote(write_rows(scenario.rows[relation]))}")
    for update in scenario.updates:
        lines += ["", "[[transactions]]", f"name = {_quote(update.name)}", f"source = {_quote(update.source)}"]
        lines += [f"global = {_quote(update.part_of.identifier)}"] if update.part_of else []
        lines.append(f"changes = {_quote(' '.join(_written(change) for change in update.changes))}")
    for listed in scenario.schedules:
        steps = _list([str(step) for step in listed.steps])
        lines += ["", "[[schedules]]", f"name = {_quote(listed.name)}", f"steps = {steps}"]
        for name, expected in listed.expect.items():
            lines.append(f"[schedules.expect.{name}]")
            lines += [f"end = {_quote(write_rows(expected.end))}"] if expected.end is not None else []
            if expected.states is not None:
                lines.append(f"states = {_list([write_rows(state) for state in expected.states])}")
            lines += [f"level = {_quote(expected.level)}"] if expected.level else []
    if scenario.expect:
        lines += ["", "[expect]", *(f"{name} = {_quote(level)}" for name, level in scenario.expect.items())]
    return "\n".join(lines) + "\n"


def _written(change: Change) -> str:
    parts = []
    for sign, bag in (("-", change.deleted), ("+", change.inserted)):
        if bag is not None:
            rows = sorted(bag.items(), key=str)
            parts += [f"{sign}{change.relation.table}{write_row(row)}" for row, n in rows for _ in range(n)]
    return " ".join(parts)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _list(items: Sequence[str]) -> str:
    return "[" + ", ".join(_quote(item) for item in items) + "]"
