"""Foreign keys that change rows by themselves: InnoDB does not log it, so no such table can be watched."""

from __future__ import annotations

import pytest

from tests.sources.mariadb.conftest import Place, changes
from weir.sources.source import SchemaChanged, SourceError

HIDDEN = ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE", "ON UPDATE SET NULL",
          "ON DELETE RESTRICT ON UPDATE CASCADE", "ON DELETE SET NULL ON UPDATE NO ACTION"]  # fmt: skip
OPEN = ["", "ON DELETE RESTRICT", "ON DELETE NO ACTION ON UPDATE RESTRICT"]
REFUSED = r"table shop\.{} cannot be used.*DROP FOREIGN KEY"


def test_every_rule(place: Place) -> None:
    """Refused by name where a rule changes rows; used where it only forbids."""
    place.run("CREATE TABLE p (a INT PRIMARY KEY)")
    for number, rule in enumerate([*HIDDEN, *OPEN]):
        place.run(f"CREATE TABLE c{number} (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (a) {rule})")
    for number in range(len(HIDDEN)):
        with pytest.raises(SourceError, match=REFUSED.format(f"c{number}")):
            place.source({f"c{number}": ("a",)})
    free = [f"c{len(HIDDEN) + number}" for number in range(len(OPEN))]
    source = place.source({"p": ("a",), **dict.fromkeys(free, ("a", "p"))})
    place.run("INSERT INTO p VALUES (1), (2)", *(f"INSERT INTO {name} VALUES (1, 1)" for name in free))
    place.run(*(f"DELETE FROM {name}" for name in free), "DELETE FROM p WHERE a = 1")
    visit = source.visit()
    assert [weight for name in free for _, weight, *_ in changes(visit, name, "a")] == [1, -1] * len(free)


def test_over_several_levels(place: Place) -> None:
    """Everything below the first is refused, also a table that refers to itself; the first is used."""
    place.run(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        "CREATE TABLE c (id INT PRIMARY KEY, b INT REFERENCES b (id) ON DELETE CASCADE)",
        "CREATE TABLE d (id INT PRIMARY KEY, d INT, FOREIGN KEY (d) REFERENCES d (id) ON DELETE CASCADE)",
    )
    for table in "bcd":
        with pytest.raises(SourceError, match=REFUSED.format(table)):
            place.source({table: ("id",)})
    source = place.source({"a": ("id",)})
    place.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1, 1)", "INSERT INTO c VALUES (1, 1)", "DELETE FROM a")
    assert place.run("SELECT * FROM c") == []
    assert changes(source.visit(), "a", "id") == [(0, 1, 1), (1, -1, 1)]


@pytest.mark.parametrize("rule", HIDDEN)
@pytest.mark.parametrize("away", [False, True])
def test_a_rule_that_comes_later_stops_the_source(place: Place, rule: str, away: bool) -> None:
    """ALTER TABLE is in the log; nothing after it is delivered, and no load begins again before it is gone."""
    place.run("CREATE TABLE p (a INT PRIMARY KEY)", "CREATE TABLE c (a INT PRIMARY KEY, p INT, q INT)")
    source = place.source({"c": ("a", "p")})
    place.run(f"ALTER TABLE c ADD CONSTRAINT hidden FOREIGN KEY (q) REFERENCES p (a) {rule}")
    if not away:
        with pytest.raises(SchemaChanged, match="FOREIGN KEY"):
            source.visit()
    with pytest.raises(SourceError, match=REFUSED.format("c")):
        place.source({"c": ("a", "p")})
    place.run("ALTER TABLE c DROP FOREIGN KEY hidden")
    again = place.source({"c": ("a", "p")}, load=False)
    again.resume(place.position)
    with pytest.raises(SchemaChanged, match="FOREIGN KEY"):
        again.visit()


def test_a_server_that_shows_names_without_quotes(place: Place) -> None:
    """Its setting sql_quote_show_create hides no foreign key."""
    place.run(
        "CREATE TABLE p (a INT PRIMARY KEY)",
        "CREATE TABLE c (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (a) ON DELETE CASCADE)",
        "SET GLOBAL sql_quote_show_create = OFF",
    )
    try:
        with pytest.raises(SourceError, match=REFUSED.format("c")):
            place.source({"c": ("a",)})
    finally:
        place.run("SET GLOBAL sql_quote_show_create = ON")
