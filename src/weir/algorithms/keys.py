"""Keys: how the keyed algorithms take a deleted row out of the view without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.view import View
from weir.messages import Change, DeleteKeys, Update


def key_deletes(view: View, changes: Iterable[Change]) -> list[DeleteKeys]:
    """One key-delete per slot of every table that was deleted from."""
    return [
        action
        for change in changes
        if change.deleted is not None
        for action in _deletes_of(view, change.relation, change.deleted)
    ]


def _deletes_of(view: View, relation: Relation, rows: Bag) -> list[DeleteKeys]:
    term = view.terms[0]
    actions = []
    for at in term.occurrences(relation):
        carried = term.carried_keys[at]
        assert carried is not None, f"the view does not carry the key of {relation}"
        actions.append(DeleteKeys(rows.keep([key for _, key in carried]), carried))
    return actions


def without(answer: Bag, deleted: Iterable[DeleteKeys]) -> Bag:
    """An answer without the tuples that carry deleted keys."""
    for delete in deleted:
        answer = answer.without(delete.keys, delete.on)
    return answer


def narrowed(view: View, update: Update) -> Update:
    """The update in the columns that the view needs; what it changes in others only is no change.

    Two versions of a row that differ in columns the view does not need are one and the same to an algorithm that
    compares full tuples.
    """
    return replace(update, changes=tuple(_narrowed(c, view.needed[c.relation].names) for c in update.changes))


def _narrowed(change: Change, columns: tuple[str, ...]) -> Change:
    if change.inserted is None or change.deleted is None:
        inserted = change.inserted.keep(columns) if change.inserted is not None else None
        return Change(change.relation, inserted, change.deleted.keep(columns) if change.deleted is not None else None)
    delta = change.inserted.keep(columns) - change.deleted.keep(columns)
    return Change(change.relation, delta.positive(), (-delta).positive())


def single_changes(view: View, update: Update) -> list[Update]:
    """A transaction as an algorithm sees it that knows none: one change after the other.

    A modification, the delete and the insert of one key, is one change; other deletes of the same table come before it.
    """
    keys = {slot.relation: slot.key for term in view.terms for slot in term.slots}
    singles = [part for change in update.changes for part in _singles(change, keys.get(change.relation, ()))]
    return [replace(update, changes=(part,)) for part in singles] or [update]


def _singles(change: Change, key: tuple[str, ...]) -> list[Change]:
    if change.inserted is None or change.deleted is None:
        return [change]
    same_key = [(name, name) for name in key]
    removed = change.deleted.without(change.inserted, same_key)
    modified = change.deleted.matching(change.inserted, same_key)
    return [Change(change.relation, None, removed), Change(change.relation, change.inserted, modified)]
