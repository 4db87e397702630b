"""``weir check``: every source, every view, and the machine, looked at before anything runs.

A source is asked to describe itself, and then to watch exactly the tables and columns that the views need: what it
refuses there it would refuse in a run. Findings about tables that no view uses are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.algebra.view import View, needed_schemas
from weir.operation.acceptance import Acceptance
from weir.operation.check_report import ERROR, OK, WARNING, Line, Report, Section, in_plural
from weir.operation.identity import owner_of
from weir.operation.machine_checks import check_spark, check_warehouse
from weir.operation.remedies import full_remedy, index_statement
from weir.planning.routes import Hop, routes
from weir.project.folder import Project, ViewText
from weir.project.kinds import SourceSpec
from weir.project.survey import Survey, ask_description, sources_of
from weir.rounds.views import ViewTables
from weir.sources.source import Description

Needed = Mapping[Relation, Schema]


def check(project: Project) -> Report:
    """Connects to every source of the project."""
    found: dict[str, Description] = {}
    failures: dict[str, str] = {}
    warehouse = check_warehouse(project)
    tables = _tables(project, warehouse)
    owner = owner_of(tables.path, tables.storage) if tables is not None else ""
    specs = {name: spec.owned_by(owner) for name, spec in project.sources.items()}
    for name, spec in specs.items():
        try:
            found[name] = ask_description(spec)
        except WeirError as problem:
            failures[name] = str(problem)
    survey = Survey(specs, found)
    rules = Acceptance(survey, tables, project.run.max_batch)
    views = [_Checked.of(rules, text) for text in project.views.values()]
    needed = needed_schemas(each.view for each in views if each.view is not None)
    sources = [
        Section(f"source {name} ({spec.kind}, {spec.place})", tuple(_source(spec, found.get(name), needed, failures)))
        for name, spec in specs.items()
    ]
    machine = (warehouse, check_spark(project.spark))
    return Report((*_empty(project), *sources, *(each.section for each in views), *machine))


def _tables(project: Project, warehouse: Section) -> ViewTables | None:
    """The views' tables, unless nothing can be said of them."""
    return None if warehouse.count(ERROR) else ViewTables(project.warehouse_path, project.storage_options())


def _empty(project: Project) -> Iterator[Section]:
    if not project.sources:
        way_out = "add [sources.NAME] with kind = ... to weir.toml"
        yield Section("sources", (Line(ERROR, "the project has no source", way_out),))
    if not project.views:
        way_out = "write CREATE MATERIALIZED VIEW ... into a file of its own in views/"
        yield Section("views", (Line(WARNING, "the project has no view", way_out),))


# -- sources ----------------------------------------------------------------------------------------------------------


def _source(
    spec: SourceSpec, description: Description | None, needed: Needed, failures: Mapping[str, str]
) -> Iterator[Line]:
    if description is None:
        yield Line(ERROR, failures[spec.name])
        return
    mine = {relation.table: schema.names for relation, schema in needed.items() if relation.source == spec.name}
    refusals = _refusals(spec, mine)
    yield Line(OK, f"connected; {in_plural(len(description.tables), 'table')}, {len(mine)} used by views")
    told = set()  # tables with an error, "" for the whole source
    for finding in description.findings:
        if not mine or finding.table in ("", *mine):
            fatal = bool(finding.remedy) and finding.remedy in refusals.get(finding.table, "")
            severity = ERROR if fatal else finding.severity
            told |= {finding.table} if severity == ERROR else set()
            yield Line(severity, finding.problem, full_remedy(spec, finding, list(mine)))
    if "" not in told:
        yield from (Line(ERROR, refusal) for table, refusal in refusals.items() if table not in told)


def _refusals(spec: SourceSpec, needed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What the source says when it is asked to watch each table that views need, by table."""
    refused = {}
    for table, columns in needed.items():
        with closing(spec.open()) as source:
            try:
                source.watch({Relation(spec.name, table): tuple(columns)})
            except WeirError as problem:
                refused[table] = str(problem)
    return refused


# -- views ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Checked:
    """A view's section, and the view itself if it could be read."""

    section: Section
    view: View | None = None

    @classmethod
    def of(cls, rules: Acceptance, text: ViewText) -> _Checked:
        subject, survey = f"view {text.name} ({text.place})", rules.survey
        try:
            missing = [name for name in sources_of(text, survey.specs) if name not in survey.descriptions]
            if missing:
                why = f"not checked: source {', '.join(missing)} could not be read"
                return cls(Section(subject, (Line(WARNING, why),)))
            view = survey.view(text)
        except WeirError as problem:
            return cls(Section(subject, (Line(ERROR, str(problem)),)))
        return cls(Section(subject, tuple(_view_lines(rules, text))), view)


def _view_lines(rules: Acceptance, text: ViewText) -> Iterator[Line]:
    try:
        view, choice = rules.plan(text)
        if rules.tables is not None:
            rules.view(text)
    except WeirError as problem:
        yield Line(ERROR, str(problem))
        return
    how = "auto" if choice.automatic else "named"
    yield Line(OK, f"kept by {choice.strategy} ({how}), promises '{choice.level}', asked for '{choice.asked}'")
    yield from dict.fromkeys(_slow_lookups(rules.survey, view))
    yield from _keyless(rules.survey, view)


def _slow_lookups(survey: Survey, view: View) -> Iterator[Line]:
    for route in routes(view, survey.catalog):
        for hop in route.hops:
            spec = survey.specs[hop.relation.source]
            if hop.index is None and spec.kind != "files":
                yield Line(WARNING, _slow(hop), "" if hop.whole_table else index_statement(spec, hop))


def _slow(hop: Hop) -> str:
    if hop.whole_table:
        return f"asks {hop.relation} for the whole table: no equality ties it to the tables before it"
    return f"looks up {hop.relation} by {', '.join(hop.lookup.key_columns)} without an index: it is read to its end"


def _keyless(survey: Survey, view: View) -> Iterator[Line]:
    keyless = [relation for relation in view.relations if not survey.catalog[relation].key]
    if keyless:
        names = ", ".join(map(str, keyless))
        yield Line(OK, f"{names}: no key, so the strategies that delete by key cannot be named; auto needs none")
