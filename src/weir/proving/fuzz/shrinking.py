"""A failing case made small: pieces are taken away as long as it still fails in the same way.

Greedy, from the large to the small: views, rounds, transactions, statements, rows, tables, columns, then the parts of
the query. Every attempt runs the case anew, so there is a limit of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from weir.proving.fuzz.case import FuzzCase, FuzzSelect, FuzzTable, FuzzView
from weir.proving.fuzz.statements import references, without_column
from weir.proving.fuzz.trial import FuzzFinding

Piece = TypeVar("Piece")
Fails = Callable[[FuzzCase], FuzzFinding | None]


def signature(finding: FuzzFinding) -> str:
    """What kind of failure it is: two of one fault have the same words, if not the same values.

    >>> signature(FuzzFinding("stopped", "view_1", 2, "source 's1': type 'decimal.Decimal' is not supported at 12"))
    'stopped: source : type  is not supported at '
    """
    if finding.what == "wrong":
        return f"wrong: {finding.told.split(' (')[0].split(':')[0]}".rstrip("0123456789 ")
    return f"{finding.what}: " + re.sub(r"\d+|'[^']*'|view_\w+|/\S+", "", finding.told)[:100]


def shrunk(case: FuzzCase, fails: Fails, most: int) -> FuzzCase:
    """The smallest case found that ``fails`` still finds; at most so many attempts."""
    attempts = 0
    for stage in (*_STAGES, *_STAGES):  # what went late may have been in the way of what comes early
        smaller = True
        while smaller:
            smaller = False
            for candidate in stage(case):
                if attempts == most:
                    return case
                attempts += 1
                if fails(candidate) is not None:
                    case, smaller = candidate, True
                    break
    return case


def fewer(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """All but some of them: nearly none, halves, then all but one.

    >>> [len(each) for each in fewer("abcd")]
    [0, 2, 2, 3, 3, 3, 3]
    """
    if not pieces:
        return
    yield ()
    half = len(pieces) // 2
    if half > 1:
        yield tuple(pieces[half:])
        yield tuple(pieces[:half])
    if len(pieces) > 1:
        for at in range(len(pieces)):
            yield (*pieces[:at], *pieces[at + 1 :])


def _views(case: FuzzCase) -> Iterator[FuzzCase]:
    if len(case.views) > 1:
        yield from (replace(case, views=(view,)) for view in case.views)
        yield from (replace(case, views=views) for views in fewer(case.views) if views)


def _rounds(case: FuzzCase) -> Iterator[FuzzCase]:
    yield from (replace(case, rounds=rounds) for rounds in fewer(case.rounds))
    for at, round_ in enumerate(case.rounds):
        if round_.act:
            yield replace(case, rounds=_changed(case.rounds, at, round_._replace(act="")))
        if at:
            both = (*case.rounds[at - 1].transactions, *round_.transactions)
            joined = case.rounds[at - 1]._replace(transactions=both)
            yield replace(case, rounds=(*case.rounds[: at - 1], joined, *case.rounds[at + 1 :]))


def _transactions(case: FuzzCase) -> Iterator[FuzzCase]:
    for at, round_ in enumerate(case.rounds):
        for kept in fewer(round_.transactions):
            yield replace(case, rounds=_changed(case.rounds, at, round_._replace(transactions=kept)))


def _statements(case: FuzzCase) -> Iterator[FuzzCase]:
    for at, round_ in enumerate(case.rounds):
        for place, transaction in enumerate(round_.transactions):
            for kept in fewer(transaction.statements) if len(transaction.statements) > 1 else ():
                changed = _changed(round_.transactions, place, transaction._replace(statements=kept))
                yield replace(case, rounds=_changed(case.rounds, at, round_._replace(transactions=changed)))


def _first_rows(case: FuzzCase) -> Iterator[FuzzCase]:
    for at, table in enumerate(case.tables):
        for kept in fewer(table.rows):
            yield replace(case, tables=_changed(case.tables, at, replace(table, rows=kept)))


def _tables(case: FuzzCase) -> Iterator[FuzzCase]:
    """Tables that no view reads go with what writes to them, and sources without tables go with them."""
    used = {place for view in case.views for place in view.tables}
    for table in case.tables:
        if table.place not in used:
            yield _without_table(case, table)
    for at, table in enumerate(case.tables):
        if table.extra:
            yield replace(case, tables=_changed(case.tables, at, replace(table, extra=())))
        if table.key:
            yield replace(case, tables=_changed(case.tables, at, replace(table, key=())))


def _without_table(case: FuzzCase, gone: FuzzTable) -> FuzzCase:
    tables = tuple(table for table in case.tables if table is not gone)
    sources = {name: kind for name, kind in case.sources.items() if any(table.source == name for table in tables)}
    rounds = []
    for round_ in case.rounds:
        kept = []
        for transaction in round_.transactions:
            left = tuple(s for s in transaction.statements
                         if not (transaction.source == gone.source and references(s, gone)))  # fmt: skip
            if left and transaction.source in sources:
                kept.append(transaction._replace(statements=left))
        rounds.append(round_._replace(transactions=tuple(kept)))
    return replace(case, tables=tables, sources=sources, rounds=tuple(rounds))


def _columns(case: FuzzCase) -> Iterator[FuzzCase]:
    for at, table in enumerate(case.tables):
        for place in range(len(table.columns)):
            if len(table.columns) > 1 and table.columns[place].name not in table.key:
                yield _without_column(case, at, place)


def _without_column(case: FuzzCase, at: int, place: int) -> FuzzCase:
    table, kind = case.tables[at], case.sources[case.tables[at].source]
    columns = (*table.columns[:place], *table.columns[place + 1 :])
    rows = tuple(without_column(row, kind, table, place) for row in table.rows)
    rounds = tuple(
        round_._replace(transactions=tuple(
            transaction._replace(statements=tuple(
                without_column(s, kind, table, place) if transaction.source == table.source else s
                for s in transaction.statements
            ))
            for transaction in round_.transactions
        ))
        for round_ in case.rounds
    )  # fmt: skip
    return replace(case, tables=_changed(case.tables, at, replace(table, columns=columns, rows=rows)), rounds=rounds)


def _queries(case: FuzzCase) -> Iterator[FuzzCase]:
    for at, view in enumerate(case.views):
        for smaller in _smaller_views(view):
            yield replace(case, views=_changed(case.views, at, smaller))


def _smaller_views(view: FuzzView) -> Iterator[FuzzView]:
    if len(view.selects) > 1:
        yield from (replace(view, selects=(select,)) for select in view.selects)
    for at, select in enumerate(view.selects):
        for smaller in _smaller_selects(select, len(view.selects) == 1):
            yield replace(view, selects=_changed(view.selects, at, smaller))
    if len(view.selects) > 1:
        for at in range(len(view.selects[0].output)):
            if all(len(select.output) > 1 for select in view.selects):
                yield replace(view, selects=tuple(_without_output(select, at) for select in view.selects))
    for name in view.options:
        yield replace(view, options={other: value for other, value in view.options.items() if other != name})


def _without_output(select: FuzzSelect, at: int) -> FuzzSelect:
    return replace(select, output=(*select.output[:at], *select.output[at + 1 :]))


def _smaller_selects(select: FuzzSelect, alone: bool) -> Iterator[FuzzSelect]:
    for where in fewer(select.where):
        yield replace(select, where=where)
    if len(select.tables) > 1:
        for at in range(len(select.tables)):
            kept = [*select.tables[:at], *select.tables[at + 1 :]]
            kept[0] = kept[0]._replace(how="", on=())
            yield replace(select, tables=tuple(kept))
    for at, join in enumerate(select.tables):
        for on in fewer(join.on) if len(join.on) > 1 else ():
            if on:
                yield replace(select, tables=_changed(select.tables, at, join._replace(on=on)))
    if alone:
        for output in fewer(select.output):
            if output:
                yield replace(select, output=output)


def _changed(pieces: Sequence[Any], at: int, piece: Any) -> tuple[Any, ...]:
    return (*pieces[:at], piece, *pieces[at + 1 :])


_STAGES: tuple[Callable[[FuzzCase], Iterator[FuzzCase]], ...] = (
    _views, _rounds, _transactions, _queries, _tables, _statements, _first_rows, _columns,
)  # fmt: skip
