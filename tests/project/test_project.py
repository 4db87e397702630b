"""A project folder: what is right becomes a Project; what is wrong becomes one message that a user can act on."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from weir.algebra.errors import WeirError
from weir.project.folder import Project, ViewText
from weir.project.kinds import KINDS, specify

GOOD = """
[warehouse]
path = "lake"
[run]
max_batch = 100
[sources.crm]
kind = "sqlite"
path = "data/crm.db"
[sources.shop]
kind = "postgres"
dsn = "postgresql://weir@localhost:5433/shop"
password = "file:secrets/shop"
[sources.stock]
kind = "mariadb"
database = "stock"
user = "weir"
password = "env:STOCK"
"""
VIEW = "CREATE MATERIALIZED VIEW {name} WITH (consistency = 'complete') AS SELECT c.id FROM crm.customer c"


def write(folder: Path, toml: str = GOOD, **views: str) -> Path:
    (folder / "weir.toml").write_text(toml)
    (folder / "views").mkdir()
    for name, text in views.items():
        (folder / "views" / f"{name}.sql").write_text(text)
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(WeirError) as caught:
        Project.read(folder)
    message = str(caught.value)
    assert "pydantic" not in message
    assert "validation" not in message
    return message


def test_a_project_is_read(tmp_path: Path) -> None:
    """Every part of it, paths and file references from the project's folder on."""
    project = Project.read(write(tmp_path, active=VIEW.format(name="active")))
    assert project.warehouse_path == os.path.join(tmp_path, "lake")
    assert (project.run.max_batch, project.run.poll, project.spark.place) == (100, 0.05, "local[*]")
    assert project.sources["crm"].options.path == os.path.join(tmp_path, "data/crm.db")
    shop = project.sources["shop"].options
    assert (shop.host, shop.port, shop.database, shop.user) == ("localhost", 5433, "shop", "weir")
    assert shop.password == f"file:{tmp_path}/secrets/shop"
    assert project.sources["stock"].options.kind == "mariadb"
    assert project.view("active").options == {"consistency": "complete"}


def test_a_place_elsewhere_stays_as_it_is(tmp_path: Path) -> None:
    """A URI and an absolute path are not the folder's."""
    toml = '[warehouse]\npath = "s3://lake/weir"\n[sources.crm]\nkind = "sqlite"\npath = "/data/crm.db"\n'
    project = Project.read(write(tmp_path, toml))
    assert (project.warehouse_path, project.sources["crm"].options.path) == ("s3://lake/weir", "/data/crm.db")


def test_credentials_of_an_object_store_are_read_when_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project itself holds references only."""
    toml = '[warehouse.storage]\nAWS_REGION = "north"\nAWS_SECRET_ACCESS_KEY = "env:LAKE_KEY"\n'
    project = Project.read(write(tmp_path, toml))
    monkeypatch.setenv("LAKE_KEY", "swordfish")
    assert "swordfish" not in repr(project)
    assert project.storage_options() == {"AWS_REGION": "north", "AWS_SECRET_ACCESS_KEY": "swordfish"}


def test_specifications_travel(tmp_path: Path) -> None:
    """To a Spark task, say."""
    for spec in Project.read(write(tmp_path)).sources.values():
        assert pickle.loads(pickle.dumps(spec)) == spec


CRM = '[sources.crm]\nkind = "sqlite"\n'
SHOP = '[sources.shop]\nkind = "postgres"\ndatabase = "shop"\n'
WRONG = {
    "no TOML": ("[sources.crm\n", "weir.toml is not TOML: Expected ']'", "line 1"),
    "text without quotes": ("[warehouse]\npath = lake\n", "is not TOML", "text stands in double quotes"),
    "unknown table": ("[warehous]\n", "weir.toml, line 1: there is no key 'warehous' here", "mean 'warehouse'?"),
    "unknown key": ("[run]\nmax_age = 1\nmax_bach = 5\n", "line 3: [run] there is no key 'max_bach'", "'max_batch'?"),
    "a key from elsewhere": ("[spark]\nzebra = 5\n", "line 2: [spark]", "the keys are master, remote, settings"),
    "wrong type": ('[run]\nmax_batch = "5"\n', 'line 2: [run] run.max_batch = "5": it must be a whole number', ""),
    "fraction for a number": ("[run]\nmax_batch = 1.5\n", "max_batch = 1.5: it must be a whole number", ""),
    "negative": ("[run]\nmax_age = -1\n", "max_age = -1: it must be at least 0", ""),
    "a value for a table": ("run = 3\n", "weir.toml, line 1: run = 3: it must be a table of keys", ""),
    "two sparks": ('[spark]\nmaster = "local[2]"\nremote = "sc://x"\n', "line 3: [spark] both master and remote", ""),
    "no kind": ('[sources.crm]\npath = "x"\n', "line 1: [sources.crm] the key 'kind' is missing", "sqlite, postgres"),
    "unknown kind": ('[sources.crm]\nkind = "sqllite"\n', "line 2: [sources.crm] unknown kind", "mean 'sqlite'"),
    "missing option": (CRM, "line 1: [sources.crm] the key 'path' is missing; add path = ...", ""),
    "unknown option": (CRM + 'pth = "x"\n', "line 3: [sources.crm] there is no key 'pth'", "did you mean 'path'?"),
    "wrong option": (SHOP + 'port = "5432"\n', 'line 4: [sources.shop] port = "5432": it must be a whole number', ""),
    "password in clear": (SHOP + 'password = "swordfish"\n', "line 4: [sources.shop]", "write 'env:NAME'"),
    "password of a wrong type": (SHOP + "password = 5\n", 'password = "***": it must be text in quotes', ""),
    "password in the dsn": (
        '[sources.shop]\nkind = "postgres"\ndsn = "postgresql://a:swordfish@h/d"\n', "line 3: [sources.shop]",
        "must not hold the password",
    ),
    "plain text to another host": (
        SHOP + 'host = "far.example"\nsslmode = "disable"\n', "line 1: [sources.shop]", "allow_plaintext = true",
    ),
    "a credential of the store": (
        '[warehouse.storage]\nAWS_SECRET_ACCESS_KEY = "swordfish"\n', "line 2: [warehouse.storage]", "'env:NAME'",
    ),
    "a name for nothing": ('[sources."my crm"]\nkind = "sqlite"\npath = "x"\n', "'my crm' cannot name a source", ""),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_the_file_is_told(mistake: str, tmp_path: Path) -> None:
    """By file, line and key, with the way out; a credential is not repeated."""
    toml, *words = WRONG[mistake]
    message = refusal(write(tmp_path, toml))
    assert [word for word in words if word not in message] == [], message
    assert "swordfish" not in message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Nobody likes to mend a file one message at a time."""
    message = refusal(write(tmp_path, CRM + SHOP + "prt = 1\nsot = 2\n"))
    assert [line.split(":")[0] for line in message.splitlines()] == ["weir.toml, line 1"] + [
        f"weir.toml, line {number}" for number in (6, 7)
    ]


def test_no_project_at_all(tmp_path: Path) -> None:
    """The message says how to get one."""
    assert "there is no weir.toml" in refusal(tmp_path)
    assert "weir init DIR" in refusal(tmp_path)


VIEWS = {
    "syntax": ("CREATE MATERIALIZED VIEW v AS SELECT a FROM WHERE", "views/v.sql: this is not Spark SQL", "^"),
    "head": ("CREATE VIEW v AS SELECT 1", "views/v.sql: a view definition begins with CREATE MATERIALIZED VIEW", ""),
    "aggregate": ("CREATE MATERIALIZED VIEW v AS SELECT a FROM s.t GROUP BY a", "views/v.sql: GROUP BY", "line 1"),
    "empty": ("\n", "views/v.sql is empty", "Write CREATE MATERIALIZED VIEW"),
    "level": ("CREATE MATERIALIZED VIEW v WITH (consistency = 'total') AS SELECT 1", "'total' is no consistency level",
              "complete"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", VIEWS)
def test_a_mistake_in_a_view_is_told(mistake: str, tmp_path: Path) -> None:
    """By file and place, before any source is asked."""
    text, *words = VIEWS[mistake]
    message = refusal(write(tmp_path, v=text))
    assert [word for word in words if word not in message] == [], message


def test_a_view_has_one_definition(tmp_path: Path) -> None:
    """Names that differ in case only are one name to Spark SQL."""
    message = refusal(write(tmp_path, one=VIEW.format(name="active"), two=VIEW.format(name="Active")))
    assert message == "view 'Active' is defined twice, in views/one.sql and views/two.sql; rename one of them"


def test_an_unknown_view_is_answered_with_the_near_ones(tmp_path: Path) -> None:
    """Views are asked for by name in many commands."""
    project = Project.read(write(tmp_path, active=VIEW.format(name="active")))
    with pytest.raises(WeirError, match=r"there is no view 'activ' .* did you mean 'active'"):
        project.view("activ")


def test_a_view_without_a_file() -> None:
    """The Python interface reads the same text."""
    assert ViewText.read(VIEW.format(name="v")).place == "view v"


def test_every_kind_names_real_classes() -> None:
    """Options and source of every kind can be loaded, and the keys of paths are keys."""
    for kind in KINDS.values():
        assert set(kind.paths) <= set(kind.keys)
        assert not kind.authority or kind.authority in kind.keys


def test_files_take_tables_of_keys() -> None:
    """Mappings and lists are keys like any other."""
    spec = specify("drop", "files", {"folder": "in", "schemas": {"t": "id bigint"}, "keys": {"t": ["id"]}})
    assert spec.options.keys == {"t": ["id"]}
    with pytest.raises(WeirError, match=r"source drop: keys.t = 5: it must be a list"):
        specify("drop", "files", {"folder": "in", "keys": {"t": 5}})
