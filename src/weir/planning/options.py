"""A strategy's options as a view's WITH gives them: text, made into what the algorithm takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.algorithms.base import Algorithm

_FOR_SHOWING = ("remember_committed", "negative_counters")  # they make an algorithm fail, for the laboratory
_WORDS = {"true": True, "false": False}


@cache
def option_types(algorithm: type[Algorithm]) -> Mapping[str, str]:
    """The options by name, each with its type as its constructor says it.

    >>> from weir.algorithms.sweep import Sweep
    >>> option_types(Sweep)
    {'batch': 'int'}
    """
    found: dict[str, str] = {}
    for cls in algorithm.__mro__:
        own = cls.__dict__.get("__init__")
        for parameter in inspect.signature(own).parameters.values() if own is not None else ():
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _FOR_SHOWING:
                found.setdefault(parameter.name, str(parameter.annotation))
    return found


def read_options(algorithm: type[Algorithm], given: Mapping[str, str]) -> dict[str, Any]:
    """The options as the algorithm takes them; a wrong name or value is told with what would be right."""
    known, strategy = option_types(algorithm), algorithm.facts.name
    for name in given:
        if name not in known:
            has = did_you_mean(name, known, "its options are") if known else "it has none"
            raise WeirError(f"strategy {strategy} has no option '{name}'; {has}")
    return {name: _value(strategy, name, known[name], text) for name, text in given.items()}


def _value(strategy: str, name: str, kind: str, text: str) -> Any:
    try:
        return _convert(kind, text)
    except (ValueError, KeyError):
        right = {"int": "a whole number", "float": "a number", "bool": "'true' or 'false'"}
        wanted = right.get(kind.removesuffix(" | None"), "pairs such as 'crm.customer: 10, sales.orders: 3'")
        raise WeirError(f"option {name} = '{text}' of strategy {strategy} is wrong; give {wanted}") from None


def _convert(kind: str, text: str) -> Any:
    plain = kind.removesuffix(" | None")
    if plain == "bool":
        return _WORDS[text.lower()]
    if plain in ("int", "float"):
        return int(text) if plain == "int" else float(text)
    if plain == "str":
        return text
    pairs = (pair.rpartition(":") for pair in text.split(",") if pair.strip())
    return {table.strip(): int(number) for table, _, number in pairs}
