"""``docs/configuration.md`` tells the truth: its example is a project, and it names every key there is."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from weir.algorithms.base import SPACES
from weir.planning.request import OWN_OPTIONS
from weir.project.folder import Project, RunKeys, SparkKeys, ViewText, WarehouseKeys
from weir.project.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def rows(first: str) -> list[str]:
    """The lines of tables that begin with this cell."""
    return [line for line in PAGE.splitlines() if line.startswith("|") and f"`{first}`" in line.split("|")[1]]


def test_the_example_is_a_project(tmp_path: Path) -> None:
    """As it stands there."""
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "weir.toml").write_text(example)
    project = Project.read(tmp_path)
    assert {name: spec.kind for name, spec in project.sources.items()} == {
        "crm": "sqlite", "shop": "postgres", "stock": "mariadb", "partner": "files",
    }  # fmt: skip


def test_the_view_is_one() -> None:
    """Its head and syntax are read."""
    (example,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert ViewText.read(example).name == "order_lines"


def test_every_key_of_every_kind_is_named() -> None:
    """And none that does not exist."""
    for kind in KINDS.values():
        (row,) = rows(kind.name)
        assert set(re.findall(r"`([\w-]+)`", row.split("|")[2])) == set(kind.keys)


def test_every_key_of_the_tables_is_named_with_its_default() -> None:
    """The defaults as the models have them."""
    models: list[type[BaseModel]] = [WarehouseKeys, SparkKeys, RunKeys]
    for model in models:
        for name, field in model.model_fields.items():
            default = rows(name)[0].split("|")[3].strip().strip("`")
            shown = {"": "none", "0.0": "0"}.get(str(field.default), str(field.default))
            assert default == ("none" if field.default == {} else shown)


def test_every_option_of_a_view_is_named() -> None:
    """Those that belong to no strategy."""
    assert all(rows(name) for name in OWN_OPTIONS)
    assert all(f"`{space}`" in rows("space")[0] for space in SPACES)
