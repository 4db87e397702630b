"""Keys: how the keyed algorithms take a deleted row out of the view without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from weir.algebra.bag import Bag, Pairs, total
from weir.algebra.catalog import Relation
from weir.algebra.view import View
from weir.messages import Change, DeleteKeys, Update

_SINCE, _DELETED = "\0since", "\0deleted"  # beside columns of any name: no database takes a NUL in one


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


def together(deletes: Iterable[DeleteKeys]) -> list[DeleteKeys]:
    """The same key-deletes, one for each set of columns that they are found by."""
    by_columns: dict[Pairs, list[Bag]] = {}
    for delete in deletes:
        by_columns.setdefault(tuple(delete.on), []).append(delete.keys)
    return [DeleteKeys(total(*keys), on) for on, keys in by_columns.items()]


def outliving(rows: Sequence[tuple[int, Bag]], deletes: Iterable[tuple[int, DeleteKeys]]) -> Bag:
    """The rows that no later key-delete takes: rows and deletes come with their moments.

    All together, by one join as of each row's moment for each set of key columns: every row and every delete is looked
    at once, however many there are of the other.
    """
    left = total(*(bag.tagged(_SINCE, moment) for moment, bag in rows))
    dated = (DeleteKeys(delete.keys.tagged(_DELETED, moment), delete.on) for moment, delete in deletes)
    for delete in together(dated):
        left = surviving(left, _SINCE, delete, _DELETED)
    return left.keep([name for name in left.schema.names if name != _SINCE])


def surviving(rows: Bag, since: str, delete: DeleteKeys, deleted: str) -> Bag:
    """The rows whose key is not deleted after they came: the moments are in a column of theirs and one of the keys'."""
    names = [f"\0key {at}" for at in range(len(delete.on))]  # a table's key may be called as a column of the view
    keys = delete.keys.keep([*(key for _, key in delete.on), deleted]).rename([*names, _DELETED])
    on = [(mine, name) for (mine, _), name in zip(delete.on, names, strict=True)]
    same = [(name, name) for name in rows.schema.names]
    return rows.without(rows.join_as_of(keys, since, _DELETED, on), same, nulls_match=True)


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


def as_one(view: View, updates: Sequence[Update]) -> Update:
    """Transactions that arrived one after the other as one: all their deletes, and those inserts that no later one of
    them deletes again.
    """
    if len(updates) == 1:
        return updates[0]
    keys = {slot.relation: slot.key for term in view.terms for slot in term.slots}
    changes: dict[Relation, list[tuple[int, Change]]] = {}
    for at, update in enumerate(updates):
        for change in update.changes:
            changes.setdefault(change.relation, []).append((at, change))
    netted = tuple(_as_one(relation, keys[relation], dated) for relation, dated in changes.items())
    return replace(updates[-1], changes=netted)


def _as_one(relation: Relation, key: tuple[str, ...], dated: Sequence[tuple[int, Change]]) -> Change:
    inserted = [(at, change.inserted) for at, change in dated if change.inserted is not None]
    deleted = [(at, change.deleted) for at, change in dated if change.deleted is not None]
    same_key = tuple((name, name) for name in key)
    deletes = ((at, DeleteKeys(rows.keep(key), same_key)) for at, rows in deleted)
    left = outliving(inserted, deletes) if inserted else None
    return Change(relation, left, total(*(rows for _, rows in deleted)) if deleted else None)
