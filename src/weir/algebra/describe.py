"""A view's normal form as text, for people: ``weir explain`` and the tests show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.algebra.view import Slot, Term, View


def describe(view: View) -> str:
    """Every term with its slots, conditions, output, and the keys that the output carries."""
    options = "".join(f", {key} = {value}" for key, value in sorted(view.options.items()))
    lines = [f"view {view.name} ({', '.join(view.columns)}){options}"]
    for number, term in enumerate(view.terms, start=1):
        lines += [f"term {number}", *(f"  {line}" for line in _term(term))]
    return "\n".join(lines)


def _term(term: Term) -> Iterator[str]:
    for slot, selection in zip(term.slots, term.selections, strict=True):
        yield f"slot {_slot(slot)}" + (f" where {selection.sql}" if selection is not None else "")
    yield from (f"join {equality}" for equality in term.equalities)
    yield from (f"rest {condition.sql}" for condition in term.rest)
    yield from (f"output {name} = {expression.sql}" for name, expression in term.output)
    for slot, carried in zip(term.slots, term.carried_keys, strict=True):
        if carried is not None:
            yield f"key of {slot.alias} in {_names(output for output, _ in carried)}"


def _slot(slot: Slot) -> str:
    key = f" key {_names(slot.key)}" if slot.key else ""
    return f"{slot.alias} = {slot.relation} ({slot.schema}){key}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
