"""The scenarios that come with Weir: the papers' worked examples and what exploration found."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.simulator.scenario import Scenario, load

FOLDER = Path(str(files("weir"))) / "scenarios"


def names() -> list[str]:
    """Their names, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Scenario:
    """The built-in scenario of that name, or the one in the file of that path."""
    if name in names():
        return load(FOLDER / f"{name}.toml")
    if Path(name).exists() or name.endswith(".toml") or "/" in name:
        return load(Path(name))
    known = did_you_mean(name, names(), "give the path of a scenario file, or a built-in name:")
    raise WeirError(f"unknown scenario '{name}'; {known}")
