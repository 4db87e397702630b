"""What a statement in the binlog means for the watched tables.

With row format only transaction control and DDL are logged as statements. DDL that leaves the needed columns as they
are goes on; other DDL on a watched table stops the source. A data statement means that a session wrote in statement
format: which rows it changed, directly or through a view, a trigger or a procedure, is not in the log, so it is
refused whatever it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
    r"|/\*M?!\d*|\*/|/\*.*?\*/|--(?=\s)[^\n]*|\#[^\n]*|[\w$]+|\S",
    re.DOTALL,
)
_CONTROL = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "START", "XA"}
_HARMLESS = {
    "ANALYZE",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "CHECKSUM",
    "FLUSH",
    "GRANT",
    "REVOKE",
    "INSTALL",
    "UNINSTALL",
    "USE",
    "LOCK",
    "UNLOCK",
}
_KEY_WORDS = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK"}
_TABLE_OPTIONS = {
    "COMMENT",
    "AUTO_INCREMENT",
    "ROW_FORMAT",
    "ALGORITHM",
    "LOCK",
    "FORCE",
    "ENABLE",
    "DISABLE",
    "KEY_BLOCK_SIZE",
    "STATS_PERSISTENT",
    "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES",
    "AVG_ROW_LENGTH",
    "MAX_ROWS",
    "MIN_ROWS",
    "ORDER",
    "WAIT",
    "NOWAIT",
}


@dataclass(frozen=True)
class Meaning:
    """``kind``: control, nothing, truncate, moves (columns may change places), change (of a watched table), data
    (statement format).
    """

    kind: str
    table: str = ""


NOTHING = Meaning("nothing")
Fold = Callable[[str], str]
WatchedColumns = Mapping[str, Collection[str]]  # table -> needed columns in lower case


def meaning(text: str, default: str, database: str, watched: WatchedColumns, fold_case: bool = False) -> Meaning:
    """What the statement, run in the database ``default``, means for tables of ``database``.

    ``fold_case``: the server takes names of tables and databases in any case, and ``watched`` has them in lower case.
    """
    fold = folding(fold_case)
    return _Reader(_tokens(text), fold(default), fold(database), watched, fold).meaning()


def folding(fold_case: bool) -> Fold:
    """How a server compares names of tables and databases, by its lower_case_table_names."""
    return str.lower if fold_case else str


def _tokens(text: str) -> list[str]:
    """Words, names, literals and signs; comments left out, but not those that the server executes."""
    found = (match[0] for match in _TOKEN.finditer(text))
    return [token for token in found if not token.startswith(("/*", "*/", "-- ", "--\t", "--\n", "#"))]


@dataclass
class _Reader:
    tokens: Sequence[str]
    default: str
    database: str
    watched: WatchedColumns
    fold: Fold
    at: int = 0

    def meaning(self) -> Meaning:
        verb = self.word()
        if verb in _CONTROL:
            return Meaning("control")
        if verb in _HARMLESS:
            return NOTHING
        handler = getattr(self, f"_{verb.lower()}", None) if verb.isalpha() else None
        return handler() if handler else Meaning("data")

    # -- tokens -------------------------------------------------------------------------------------------------------

    def peek(self) -> str:
        return self.tokens[self.at].upper() if self.at < len(self.tokens) else ""

    def word(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def skip(self, *words: str) -> bool:
        """Passes over these words, if they come next in any order; whether there was one."""
        before = self.at
        while self.peek() in words:
            self.at += 1
        return self.at > before

    def name(self) -> tuple[str, str]:
        """(database, table), folded as the server does."""
        first = self.one_name()
        if self.peek() != ".":
            return self.default, first
        self.at += 1
        return first, self.one_name()

    def one_name(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        self.at += 1
        return self.fold(_bare(token))

    def is_watched(self, name: tuple[str, str]) -> bool:
        return name[0] == self.database and name[1] in self.watched

    # -- verbs --------------------------------------------------------------------------------------------------------

    def _set(self) -> Meaning:
        if self.peek() != "STATEMENT":
            return NOTHING
        while self.at < len(self.tokens) and self.word() != "FOR":
            pass
        return self.meaning()

    def _truncate(self) -> Meaning:
        self.skip("TABLE")
        name = self.name()
        return Meaning("truncate", name[1]) if self.is_watched(name) else NOTHING

    def _create(self) -> Meaning:
        replaces = self.skip("OR", "REPLACE")
        if self.skip("TEMPORARY") or not self.skip("TABLE"):
            return NOTHING
        if self.skip("IF", "NOT", "EXISTS") and not replaces:
            return NOTHING
        return self._change_of(self.name())

    def _drop(self) -> Meaning:
        if self.skip("DATABASE", "SCHEMA"):
            self.skip("IF", "EXISTS")
            return Meaning("change", "every table") if self.one_name() == self.database else NOTHING
        if self.skip("TEMPORARY") or not self.skip("TABLE", "TABLES"):
            return NOTHING
        self.skip("IF", "EXISTS")
        return self._any_named()

    def _rename(self) -> Meaning:
        return self._any_named() if self.skip("TABLE", "TABLES") else NOTHING

    def _alter(self) -> Meaning:
        self.skip("ONLINE", "OFFLINE", "IGNORE")
        if not self.skip("TABLE"):
            return NOTHING
        self.skip("IF", "EXISTS")
        name = self.name()
        if not self.is_watched(name):
            takes_over = {"RENAME", "EXCHANGE", "CONVERT"} & {token.upper() for token in self.tokens[self.at :]}
            return self._any_named() if takes_over else NOTHING
        kinds = {_clause(clause, self.watched[name[1]]) for clause in _clauses(self.tokens[self.at :])}
        worst = next((kind for kind in ("change", "moves") if kind in kinds), "nothing")
        return Meaning(worst, name[1])

    def _change_of(self, name: tuple[str, str]) -> Meaning:
        return Meaning("change", name[1]) if self.is_watched(name) else NOTHING

    def _any_named(self) -> Meaning:
        """A change of the first watched table among all names that follow."""
        while self.at < len(self.tokens):
            name = self.name()
            if self.is_watched(name):
                return Meaning("change", name[1])
        return NOTHING


def _bare(token: str) -> str:
    if token[:1] in ("`", '"') and len(token) > 1:
        return token[1:-1].replace(token[0] * 2, token[0])
    return token


def _clauses(tokens: Sequence[str]) -> list[list[str]]:
    """The parts of an ALTER TABLE between commas, outside parentheses."""
    clauses: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            clauses.append([])
        elif token != ";":
            clauses[-1].append(token)
    return [clause for clause in clauses if clause]


def _clause(clause: Sequence[str], needed: Collection[str]) -> str:
    """What one part of an ALTER TABLE does: nothing, moves or change."""
    words = [token.upper() for token in clause]
    verb, rest = words[0], words[1:]
    if "CASCADE" in words or ("REFERENCES" in words and "SET" in words):
        return "change"  # what such a foreign key does is not logged
    if verb in ("ADD", "DROP"):
        return _add_or_drop(verb, clause[1:], needed)
    if verb == "ENGINE":
        return "nothing" if words[-1] == "INNODB" else "change"
    if verb in _TABLE_OPTIONS:
        return "nothing"
    if verb == "RENAME" and rest[:1] and rest[0] in ("INDEX", "KEY"):
        return "nothing"
    if verb == "ALTER" and ("DEFAULT" in words or rest[:1] == ["INDEX"]):
        return "nothing"
    return "change"


def _add_or_drop(verb: str, rest: Sequence[str], needed: Collection[str]) -> str:
    words = [token.upper() for token in rest]
    if words[:1] and words[0] in _KEY_WORDS:
        return "nothing"
    if words[:1] and words[0] in ("PARTITION", "SYSTEM", "PERIOD"):
        return "nothing" if (verb, words[0]) == ("ADD", "PARTITION") else "change"
    names = [token for token in rest if token.upper() not in ("COLUMN", "IF", "NOT", "EXISTS")]
    if verb == "DROP":
        return "change" if not names or _bare(names[0]).lower() in needed else "moves"
    return "moves" if {"FIRST", "AFTER"} & set(_outside_parentheses(words)) else "nothing"


def _outside_parentheses(words: Sequence[str]) -> list[str]:
    depth, outside = 0, []
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            outside.append(word)
    return outside
