"""Edges of the servers, through the whole of Weir: text keys in a narrow character set."""

from __future__ import annotations

from collections.abc import Callable

from tests.runtime.shop import Shop

TABLES = {
    "place": (
        "CREATE TABLE place (id bigint PRIMARY KEY NOT NULL, name varchar(20), land varchar(20), KEY (name, land))"
        " CHARACTER SET latin1",
        "INSERT INTO place VALUES (1, 'Köln', 'DE'), (2, 'koln', 'DE'), (3, 'Ulm', 'DE'), (4, '?', '?')",
    ),
    "visit": (
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE visit (id bigint PRIMARY KEY NOT NULL, name text, land text, mood mood)",
        "INSERT INTO visit VALUES (10, 'Ulm', 'DE', 'glad')",
    ),
}
JOINED = "SELECT v.id, p.id AS place, v.mood FROM {visit} v JOIN {place} p ON v.name = p.name AND v.land = p.land"


def test_text_keys_of_a_narrow_character_set(open_shop: Callable[..., Shop]) -> None:
    """Changes of either side find exactly the partners that Spark calls equal; what latin1 lacks finds none."""
    shop = open_shop(kinds=("mariadb", "postgres"), places={"m": ("place",), "pg": ("visit",)}, tables=TABLES)
    shop.view("joined", JOINED)
    shop.catch_up()
    visits = [(11, "Köln", "DE"), (12, "KÖLN", "DE"), (13, "☃", "☃"), (14, "koln", "DE"), (15, "Köln ", "DE")]
    shop.write("pg", *(f"INSERT INTO visit VALUES ({n}, '{name}', '{land}', 'sad')" for n, name, land in visits))
    shop.catch_up()
    shop.write("m", "INSERT INTO place VALUES (5, 'KÖLN', 'DE')", "DELETE FROM place WHERE id = 3")
    shop.catch_up()
    assert sorted(tuple(row) for row in shop.warehouse.read("joined").collect()) == [
        (11, 1, "sad"),
        (12, 5, "sad"),
        (14, 2, "sad"),
    ]
    assert shop.audit("joined").clean
