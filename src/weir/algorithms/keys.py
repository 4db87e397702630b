"""Key-deletes: the keyed algorithms' way to take a deleted row out of the view without asking anybody."""

from __future__ import annotations

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.view import View
from weir.messages import DeleteKeys, Update


def key_deletes(view: View, update: Update) -> list[DeleteKeys]:
    """One key-delete per slot of every table that the transaction deleted from."""
    return [
        action
        for change in update.changes
        if change.deleted is not None
        for action in deletes_of(view, change.relation, change.deleted)
    ]


def deletes_of(view: View, relation: Relation, rows: Bag) -> list[DeleteKeys]:
    """Removes from a keyed view what was derived from these rows of a table, one action per slot it fills."""
    term = view.terms[0]
    actions = []
    for at in term.occurrences(relation):
        carried = term.carried_keys[at]
        assert carried is not None, f"the view does not carry the key of {relation}"
        actions.append(DeleteKeys(rows.keep([key for _, key in carried]), carried))
    return actions
