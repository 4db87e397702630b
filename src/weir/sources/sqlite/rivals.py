"""The application's own triggers on a captured table: which of them could keep a change from ours.

SQLite fires the newest trigger of a kind first. What an older AFTER trigger does happens after ours has logged the
change. A newer one can end the row's turn before (RAISE(IGNORE), or a failure under OR FAIL, neither of which takes the
change back), or change the table between the noting of rows and their logging: so ours must be the newest. A BEFORE
trigger that changes the same table, be it through other tables' triggers or foreign keys, can do the latter whatever
its age. Triggers in a connection's own TEMP schema are seen by nobody else.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

OURS = "weir_capture_"
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|\s+"""  # nothing
    r"""|(?P<token>"(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]|[\w$]+|.)""",
    re.DOTALL,
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "[": "]"}
_TIMING = 3  # its place in CREATE TRIGGER name AFTER, the form in which SQLite keeps every trigger


@dataclass(frozen=True)
class Trigger:
    """One trigger, as SQLite keeps it; ``number`` grows with every new one."""

    number: int
    name: str
    table: str
    text: str

    @property
    def ours(self) -> bool:
        return self.name.startswith(OURS)

    @property
    def after(self) -> bool:
        """BEFORE is what a trigger is that says nothing."""
        return tokens(self.text)[_TIMING].upper() == "AFTER"

    def written(self) -> Iterator[str]:
        """The tables that its statements insert into, update or delete from, in lower case."""
        words = tokens(self.text)
        body = words[[word.upper() for word in words].index("BEGIN", _TIMING) + 1 :]
        for at, word in enumerate(body):
            if word.upper() == "UPDATE" and body[at + 1].upper() == "OR":
                yield _name(body[at + 3])
            elif word.upper() in ("INTO", "UPDATE") or (word.upper() == "FROM" and body[at - 1].upper() == "DELETE"):
                yield _name(body[at + 1])


def tokens(text: str) -> list[str]:
    """The words, quoted names and signs of SQL text, without blanks and comments.

    >>> tokens('CREATE TRIGGER "a b" -- why\\n AFTER INSERT ON [t] BEGIN')
    ['CREATE', 'TRIGGER', '"a b"', 'AFTER', 'INSERT', 'ON', '[t]', 'BEGIN']
    """
    return [match["token"] for match in _TOKEN.finditer(text) if match["token"]]


def _name(token: str) -> str:
    if (closing := _QUOTES.get(token[0])) is None:
        return token.lower()
    return token[1:-1].replace(closing * 2, closing).lower()


def triggers(database: sqlite3.Connection) -> list[Trigger]:
    rows = database.execute("SELECT rowid, name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'")
    return [Trigger(*row) for row in rows.fetchall()]


def overtaking(database: sqlite3.Connection, table: str) -> str:
    """An AFTER trigger of the application that fires before one of ours; empty where there is none."""
    here = [trigger for trigger in triggers(database) if trigger.table.lower() == table.lower()]
    oldest = min((trigger.number for trigger in here if trigger.ours and trigger.after), default=0)
    newer = (trigger.name for trigger in here if not trigger.ours and trigger.number > oldest and trigger.after)
    return next(newer, "")


def changing_before(database: sqlite3.Connection, table: str) -> str:
    """A BEFORE trigger of the application that changes its own table, directly or by what that sets off."""
    here = [trigger for trigger in triggers(database) if trigger.table.lower() == table.lower()]
    before = [trigger for trigger in here if not trigger.ours and not trigger.after]
    followers = _followers(database) if before else {}
    return next((one.name for one in before if table.lower() in _reached(set(one.written()), followers)), "")


def _followers(database: sqlite3.Connection) -> dict[str, set[str]]:
    """Table -> the tables that a change of it may change: by its triggers, by the actions of foreign keys."""
    found: dict[str, set[str]] = {}
    for trigger in triggers(database):
        if not trigger.ours:
            found.setdefault(trigger.table.lower(), set()).update(trigger.written())
    children = database.execute(
        'SELECT keys."table", tables.name FROM sqlite_master AS tables, pragma_foreign_key_list(tables.name) AS keys'
        " WHERE tables.type = 'table' AND NOT (keys.on_delete IN ('NO ACTION', 'RESTRICT')"
        " AND keys.on_update IN ('NO ACTION', 'RESTRICT'))"
    )
    for parent, child in children.fetchall():
        found.setdefault(parent.lower(), set()).add(child.lower())
    return found


def _reached(starts: set[str], followers: dict[str, set[str]]) -> set[str]:
    reached, waiting = set(starts), list(starts)
    while waiting:
        new = followers.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
