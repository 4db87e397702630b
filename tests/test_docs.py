"""The documents tell the truth: paths exist, links lead somewhere, the README's commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def commands(document: Path) -> list[str]:
    """The lines of bash blocks, without comments."""
    blocks = re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_every_path_on_the_walk_exists() -> None:
    """docs/walk.md names real files, in the order of the folders."""
    paths = re.findall(r"`((?:src|tests)/[\w/.]+)`", (ROOT / "docs/walk.md").read_text())
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    """Relative links and pictures point at files that are there."""
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("command", [c for c in commands(ROOT / "README.md") if c.startswith(".venv/bin/weir")])
def test_the_readmes_commands_run(command: str, tmp_path: Path) -> None:
    """As written, in a folder of their own; exit code 1 says that a level was not held, which some show on purpose."""
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "weir", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


def test_the_readme_shows_the_spectrum() -> None:
    """The picture of the measured levels, and the page that says how they were measured."""
    text = (ROOT / "README.md").read_text()
    assert "](docs/pictures/spectrum.svg)" in text
    assert "](docs/spectrum.md)" in text


def test_the_two_commands_are_those_of_the_makefile() -> None:
    """The README names make demo and make test, and the Makefile has them."""
    assert [line for line in commands(ROOT / "README.md") if line.startswith("make")] == ["make demo", "make test"]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "setup"} <= set(targets)
