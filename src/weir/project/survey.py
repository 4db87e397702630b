"""What all sources say of themselves, together: the catalog that views are read against, and the facts for choosing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import expressions as exp

from weir.algebra.catalog import Catalog, Relation
from weir.algebra.definition import Definition, node_span
from weir.algebra.errors import ViewError, WeirError
from weir.algebra.header import read_header
from weir.algebra.refusals import read_selects
from weir.algebra.sql import parse_view
from weir.algebra.suggestion import way_out
from weir.algebra.view import View
from weir.project.folder import ViewText, placed
from weir.project.kinds import SourceSpec
from weir.sources.source import Description, SourceError


@dataclass(frozen=True)
class Survey:
    """Sources and their descriptions, by name."""

    specs: Mapping[str, SourceSpec]
    descriptions: Mapping[str, Description]
    problems: Mapping[str, WeirError] = field(default_factory=dict)  # of sources that did not answer

    @classmethod
    def of(cls, specs: Mapping[str, SourceSpec], only: Iterable[str] | None = None) -> Survey:
        """Connects to every source, or to some, and asks it to describe itself."""
        names = specs if only is None else list(only)
        return cls(specs, {name: ask_description(specs[name]) for name in names})

    @classmethod
    def of_reachable(cls, specs: Mapping[str, SourceSpec], only: Iterable[str]) -> Survey:
        """The same, as far as the sources answer."""
        return cls(specs, {}, dict.fromkeys(only, WeirError("not asked yet"))).ask_silent()

    def ask_silent(self) -> Survey:
        """This survey, and what those sources say now that did not answer before."""
        descriptions, problems = dict(self.descriptions), dict[str, WeirError]()
        for name in self.problems:
            try:
                descriptions[name] = ask_description(self.specs[name])
            except WeirError as problem:
                problems[name] = problem
        return Survey(self.specs, descriptions, problems)

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog.of(table for description in self.descriptions.values() for table in description.tables)

    @cached_property
    def rows(self) -> dict[Relation, int]:
        """How many each table has, as far as its source knows."""
        return {relation: rows for each in self.descriptions.values() for relation, rows in each.rows.items()}

    def marked(self, view: View) -> bool:
        """Whether transactions of every source of the view can carry the identifier of a global one."""
        return all(self.specs[source].marks for source in view.sources)

    def view(self, text: ViewText) -> View:
        """The view in its normal form; an error names its file and points into it."""
        for source in sources_of(text, self.specs):
            if source in self.problems:
                raise self.problems[source]
            if source in self.descriptions and not self.descriptions[source].tables:
                where = self.specs[source].place
                raise SourceError(f"{text.place}: source {source} ({where}) has no table that it may read: weir check")
        try:
            return parse_view(text.text, self.catalog)
        except ViewError as problem:
            raise placed(self._with_types(self._with_refusals(problem, text)), text.place) from None

    def _with_refusals(self, problem: ViewError, text: ViewText) -> ViewError:
        """A table that is there, but cannot be read exactly, is not simply unknown."""
        name = problem.text[problem.start : problem.end].strip("`").lower()
        named = sources_of(text, self.specs)
        for description in (self.descriptions[source] for source in named if source in self.descriptions):
            for relation, why in description.refused.items():
                if relation.table.lower() == name and problem.problem.startswith("unknown table"):
                    said = f"{relation} cannot be read by a view: {why}"
                    return ViewError(said, "", problem.text, problem.start, problem.end)
        return problem

    def _with_types(self, problem: ViewError) -> ViewError:
        """A column that is there, but has a type that no view can hold, is not simply unknown."""
        name = problem.text[problem.start : problem.end].split(".")[-1].strip("`").lower()
        for relation, column, type_ in self._unmapped():
            if column.lower() == name and "column" in problem.problem:
                why = f"column {relation}.{column} cannot be used in a view: its type is {type_ or 'not declared'}"
                return ViewError(why, "Leave it out.", problem.text, problem.start, problem.end)
        return problem

    def _unmapped(self) -> Iterator[tuple[Relation, str, str]]:
        for description in self.descriptions.values():
            for relation, columns in description.unmapped.items():
                yield from ((relation, column, type_) for column, type_ in columns.items())


def ask_description(spec: SourceSpec) -> Description:
    with closing(spec.open()) as source:
        return source.describe()


def sources_of(text: ViewText, known: Iterable[str]) -> list[str]:
    """The sources that a view names, as the project spells them; an unknown one is refused.

    A table without its source could be anywhere: then all are named, so that reading the view can say what to write.
    """
    names = list(known)
    folded = {name.lower(): name for name in names}
    definition = Definition.of(text.text)
    found = []
    for table in _tables(definition):
        source = table.args.get("db")
        if source is None:
            return names
        if source.name.lower() not in folded:
            known_ones = way_out(source.name, names, "The sources are")
            problem = definition.error(f"unknown source {source.name}", known_ones, node_span(source))
            raise placed(problem, text.place)
        found.append(folded[source.name.lower()])
    return list(dict.fromkeys(found))


def named_sources(text: ViewText, known: Iterable[str]) -> list[str]:
    """The same, where a view that names an unknown source is somebody else's trouble: it names none."""
    try:
        return sources_of(text, known)
    except WeirError:
        return []


def _tables(definition: Definition) -> Iterator[exp.Table]:
    for _, select in read_selects(definition, read_header(definition).body):
        yield from select.find_all(exp.Table)
