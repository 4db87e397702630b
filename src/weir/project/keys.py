"""Tables of keys, as ``weir.toml`` and ``Warehouse.source`` have them: every unknown, missing or mistyped key in plain
words, with the way out.

The checking is pydantic's; its words are not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.sources.secrets import STARS

M = TypeVar("M", bound=BaseModel)
SECRET = ("password",)  # keys whose value is never shown
STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_KINDS = {  # what pydantic's errors begin with -> what would be right
    "int": "a whole number",
    "float": "a number",
    "string": "text in quotes",
    "bool": "true or false",
    "dict": "a table of keys",
    "mapping": "a table of keys",
    "model": "a table of keys",
    "list": "a list",
    "tuple": "a list",
    "is_instance": "a list",
}


@dataclass(frozen=True)
class Problem:
    """Something wrong with one key; ``path`` leads to it from the top."""

    path: tuple[str, ...]
    text: str


class WrongKeys(WeirError):
    """A table of keys cannot be used as it is. ``where`` names the table in the message."""

    def __init__(self, where: str, problems: Sequence[Problem]) -> None:
        self.where, self.problems = where, tuple(problems)
        super().__init__("\n".join(f"{where}: {problem.text}" for problem in problems))


def checked(model: type[M], table: Mapping[str, Any], where: str) -> M:
    """The table as the model has it; WrongKeys with all that is wrong."""
    try:
        return model.model_validate(dict(table))
    except ValidationError as error:
        found = [_problem(model, dict(detail)) for detail in error.errors(include_url=False)]
    raise WrongKeys(where, found)


def _problem(model: type[BaseModel], detail: Mapping[str, Any]) -> Problem:
    path = tuple(str(part) for part in detail["loc"])
    return Problem(path, _in_words(model, path, str(detail["type"]), detail))


def _in_words(model: type[BaseModel], path: tuple[str, ...], kind: str, detail: Mapping[str, Any]) -> str:
    *above, key = path
    if kind == "extra_forbidden":
        return f"there is no key '{key}' here; {did_you_mean(key, _known(model, above), 'the keys are')}"
    if kind == "missing":
        return f"the key '{key}' is missing; add {key} = ..."
    name, value = ".".join(path), STARS if key in SECRET else detail.get("input")
    limits = {"greater_than_equal": "at least", "less_than_equal": "at most", "greater_than": "more than"}
    if kind in limits:
        (limit,) = (bound for bound in detail["ctx"].values() if bound is not None)
        return f"{name} = {_shown(value)}: it must be {limits[kind]} {limit}"
    right = next((words for begin, words in _KINDS.items() if kind.startswith(begin)), None)
    return f"{name} = {_shown(value)}: {f'it must be {right}' if right else str(detail['msg'])}"


def _known(model: type[BaseModel], above: Sequence[str]) -> list[str]:
    for part in above:
        inner = model.model_fields[part].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _shown(value: object) -> str:
    """As TOML has it.

    >>> _shown(True), _shown("x"), _shown(3)
    ('true', '"x"', '3')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
