"""What of an update concerns a view, and which of its rows can matter to it."""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.expression import Expression
from weir.algebra.view import View
from weir.messages import Change, Update


def concerning(view: View, update: Update) -> Update:
    """The update without changes of tables that the view does not use."""
    mine = tuple(change for change in update.changes if change.relation in view.needed)
    return update if len(mine) == len(update.changes) else replace(update, changes=mine)


def relevant(view: View, update: Update) -> Update:
    """The update without the rows that no slot's own selection lets through; tables left without rows are dropped."""
    changes = (
        Change(c.relation, _relevant_rows(view, c.relation, c.inserted), _relevant_rows(view, c.relation, c.deleted))
        for c in update.changes
    )
    return replace(update, changes=tuple(c for c in changes if c.inserted is not None or c.deleted is not None))


def _relevant_rows(view: View, relation: Relation, rows: Bag | None) -> Bag | None:
    condition = _relevance(view, relation)
    if rows is None or condition is None:
        return rows
    passing = rows.select(condition)
    return passing if next(passing.items(), None) is not None else None


def _relevance(view: View, relation: Relation) -> Expression | None:
    """What a row of the table must satisfy to matter to some slot; None when every row may matter."""
    conditions = []
    for term in view.terms:
        for at in term.occurrences(relation):
            selection, slot = term.selections[at], term.slots[at]
            if selection is None:
                return None
            conditions.append(selection.rename({slot.qualify(name): name for name in slot.schema.names}))
    return Expression(" OR ".join(f"({condition.sql})" for condition in conditions)) if conditions else None
