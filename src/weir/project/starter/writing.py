"""``weir init``: a project folder that runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from weir.algebra.errors import WeirError
from weir.project.starter.data import make_databases


def write_project(folder: Path, size: int = 1) -> list[str]:
    """Fills a new or empty folder, the databases with ``size`` times the rows; the names of what is in it."""
    _refuse_used(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, name in _templates(files("weir.project.starter") / "template"):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        traffic = (files("weir.project.starter") / "traffic.py").read_text(encoding="utf-8")
        (folder / "traffic.py").write_text(traffic, encoding="utf-8")
    except OSError as problem:
        raise WeirError(f"cannot write to {folder}: {problem.strerror or problem}; choose another folder") from None
    make_databases(folder / "data", size)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _refuse_used(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise WeirError(f"{folder} is a file; name a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise WeirError(f"{folder} is not empty; name a new or empty folder")


def _templates(folder: Traversable, above: str = "") -> Iterator[tuple[Traversable, str]]:
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _templates(entry, f"{name}/")
        else:
            yield entry, name
