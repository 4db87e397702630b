"""The documents tell the truth: paths exist, links lead somewhere, commands and code run as they are written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app
from weir.project.starter.writing import write_project

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


def blocks(document: Path) -> list[tuple[str, str]]:
    """The blocks of a page in order: their language and text."""
    found: list[tuple[str, str]] = re.findall(r"```(\w+)\n(.*?)```", document.read_text(), re.DOTALL)
    return found


def run_here(command: str) -> str:
    """A line of a bash block in the present folder: ``weir`` in this process and its Spark session, others apart."""
    program, *arguments = shlex.split(command)
    if program.endswith("weir"):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout
    program = sys.executable if program == "python3" else program
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def run_python(document: Path) -> int:
    """Every block of Python of a page, in order, in the present folder. How many there are."""
    names: dict[str, object] = {}
    code = [text for language, text in blocks(document) if language == "python"]
    for text in code:
        exec(compile(text, str(document.relative_to(ROOT)), "exec"), names)
    return len(code)


README = [line for line in commands(ROOT / "README.md") if line.startswith(".venv/bin/weir")]
IN_A_PROJECT = [line for line in README if " shop" in line]
LABORATORY = [line for line in README if " shop" not in line]


# What each command of the laboratory says. All of them exit with 0.
SAID: dict[str, tuple[str, ...]] = {
    "algorithms": ("ring", "Levels: promised by the paper / measured by weir spectrum"),
    "simulate eca_example_2 --algorithm basic": (
        "level held  ✗ none", "true view   {(1), (4)}", "final view  ✗ {(1), 2*(4)}",
    ),
    "simulate eca_example_4 --algorithm lca --schedule 'U1; U2; deliver s; U3'": (
        "level held  ✓ complete", "schedule    U1; U2; deliver s; U3;",
    ),
    "simulate strobe_example_1 --algorithm strobe --all": (
        "18 schedules", "level held on all of them: complete (expected: complete)",
    ),
    "bench eca --quick --out out/bench-eca": ("Figure 6.5", "Crossovers", "picture: out/bench-eca/eca-figure-6-2.svg"),
    "stress sqlite --seconds 5": (" transactions in ", ", 0 wrong"),
}  # fmt: skip
WRITTEN = {"bench": [f"out/bench-eca/eca-figure-6-{number}.svg" for number in (2, 3, 4, 5)]}


@pytest.mark.parametrize("command", LABORATORY)
def test_the_readmes_laboratory(command: str, tmp_path: Path) -> None:
    """As written, in a folder of their own: each says what the README promises of it, and exits with 0."""
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "weir", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert [part for part in SAID[shlex.join(arguments)] if part not in done.stdout] == [], done.stdout
    files = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert files == WRITTEN.get(arguments[0], [])


def test_every_command_of_the_laboratory_is_expected_to_say_something() -> None:
    """The README's commands and the table above are the same."""
    assert [shlex.join(shlex.split(command)[1:]) for command in LABORATORY] == list(SAID)


@pytest.mark.usefixtures("spark", "own_logging")
def test_the_readmes_first_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other; there are two views over three databases, and the audit in the end finds nothing wrong.

    Then other tools read them, as the README and the page about tables say.
    """
    monkeypatch.chdir(tmp_path)
    told = {command.split()[1]: run_here(command) for command in IN_A_PROJECT}
    assert [*told] == ["init", "check", "explain", "run", "query", "verify"]
    project = tomllib.loads((tmp_path / "shop" / "weir.toml").read_text())
    assert [source["kind"] for source in project["sources"].values()] == ["sqlite"] * 3
    assert len(list((tmp_path / "shop" / "views").glob("*.sql"))) == 2
    assert "order_lines" in told["explain"]
    assert "orders" in told["query"]
    assert told["verify"].count("0 missing, 0 extra") == 2
    for page in ("README.md", "docs/tables.md"):
        assert run_python(ROOT / page) > 0


@pytest.mark.usefixtures("spark", "own_logging")
def test_the_first_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/first-project.md from top to bottom: commands are run, files are written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "views").mkdir()
    files = {"toml": tmp_path / "weir.toml", "sql": tmp_path / "views" / "loans.sql"}
    told: list[tuple[str, str]] = []
    for language, text in blocks(ROOT / "docs/first-project.md"):
        if language in files:
            files[language].write_text(text)
        else:
            told += [(line, run_here(line)) for line in text.splitlines()]
    first, changed, as_of = [said for line, said in told if line.startswith("weir query")]
    assert [[name in said for name in ("Emma", "Ulysses", "US", "FR")] for said in (first, changed, as_of)] == [
        [True, True, True, False],
        [False, True, False, True],
        [True, True, True, False],  # as after the first load
    ]
    assert "view loans: 2 rows, 0 missing, 0 extra" in dict(told)["weir verify loans"]


@pytest.mark.usefixtures("spark", "own_logging")
def test_operating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/operating.md, in a project that runs."""
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    run_here("weir run --until-caught-up")
    told = {command: run_here(command) for command in commands(ROOT / "docs/operating.md")}
    assert "order_lines" in told["weir status"]
    assert "0 missing, 0 extra" in told["weir verify order_lines"]
    assert (tmp_path / "published" / "order_lines" / "_delta_log").is_dir()


@pytest.mark.usefixtures("spark")
def test_the_python_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of docs/python-api.md, in order; it asserts what it says."""
    monkeypatch.chdir(tmp_path)
    assert run_python(ROOT / "docs/python-api.md") > 5


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
