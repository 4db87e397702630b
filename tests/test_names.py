"""Names: a type has one owner, and what has no docstring says what it is by its name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import weir

ROOT = Path(weir.__file__).parent
ROOMS = ("operation", "planning", "project", "rounds", "sweeping")
TWO_OWNERS: dict[str, str] = {}  # a type name that may be defined twice -> why
# One word is enough where everybody knows it and it is just that: pairs of verbs, DB-API, what makes one (``of``).
KNOWN_WORDS = {
    "address", "close", "create", "execute", "fetchone", "main", "name", "of", "open", "path", "release", "sources",
    "start", "state", "stop",
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in [ROOT / room for room in rooms] or [ROOT]:
        for path in sorted(folder.rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def alias(statement: ast.stmt) -> str:
    """The name of a type that a module-level assignment gives: in CamelCase, where values are in capitals or small."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name if re.fullmatch(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name) else ""
    return ""


def types(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        name = statement.name if isinstance(statement, ast.ClassDef) else alias(statement)
        if name and not name.startswith("_"):
            yield name


def owners(sources: Iterator[tuple[str, ast.Module]]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for place, module in sources:
        for name in types(module):
            found[name].append(place)
    return found


def test_a_type_name_has_one_owner() -> None:
    found = owners(modules())
    assert len(found) > 500  # so many there are: the search has found them
    shared = {name: places for name, places in found.items() if len(places) > 1 and name not in TWO_OWNERS}
    assert not shared, "give all but one of them a name of its own, or import it"


def test_two_owners_are_found() -> None:
    first = ast.parse("class Place: ...\nRow = tuple[int, ...]\n_Own = int\nLIMIT = 3")
    second = ast.parse("from first import Row\nPlace: TypeAlias = str\n_Own = str\nLIMIT = 4")
    assert owners(iter([("first", first), ("second", second)])) == {"Place": ["first", "second"], "Row": ["first"]}


# -- names that explain themselves -------------------------------------------------------------------------------------


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def explains_itself(thing: ast.ClassDef | Function) -> bool:
    """By a docstring, by at least two words, or by being called what it returns (``catalog``: a ``Catalog``)."""
    if ast.get_docstring(thing) or len(words(thing.name)) > 1 or thing.name in KNOWN_WORDS:
        return True
    returns = ast.unparse(thing.returns) if isinstance(thing, Function) and thing.returns else ""
    return bool({thing.name, thing.name.removesuffix("s")} & set(words(returns)))


def public(module: ast.Module) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    for thing in module.body:
        if isinstance(thing, ast.ClassDef | Function) and not thing.name.startswith("_"):
            yield thing.name, thing
            for inner in thing.body if isinstance(thing, ast.ClassDef) else ():
                if isinstance(inner, Function) and not inner.name.startswith("_"):
                    yield f"{thing.name}.{inner.name}", inner


def silent(sources: Iterator[tuple[str, ast.Module]]) -> list[str]:
    return [f"{place}: {name}" for place, one in sources for name, thing in public(one) if not explains_itself(thing)]


def test_every_public_name_explains_itself() -> None:
    assert not silent(modules(*ROOMS)), "say in a docstring what it is, or in the name"


def test_a_silent_name_is_found() -> None:
    text = "class Bare:\n  def settled(self) -> bool: ...\n  def catalog(self) -> Catalog: ...\ndef read_options(): ..."
    assert silent(iter([("here", ast.parse(text))])) == ["here: Bare", "here: Bare.settled"]
