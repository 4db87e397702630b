"""The spectrum: what a quick run must show, that it is the same run every time, and one cell in full."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from weir.algorithms.base import SCENARIOS
from weir.algorithms.measured import measured, written
from weir.algorithms.registry import ALGORITHMS
from weir.bench.simulator.spectrum_picture import WIDTH, Square, draw, squares, write_picture
from weir.bench.simulator.spectrum_report import BEGIN, END, NO_CLAIM, markdown, put_into, write_counterexamples
from weir.consistency.checker import highest_level
from weir.consistency.levels import NAMES
from weir.simulator.builtin import find, names
from weir.simulator.cases import built_in, kind_of
from weir.simulator.explore import run_listed
from weir.simulator.scenario import parse
from weir.simulator.spectrum import CONTROLS, EXPLAINED, FULL, QUICK, Cell, chosen, in_parts, measure
from weir.simulator.step import RUN, Step

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "spectrum.md", DOCS / "pictures" / "spectrum.svg"


@cache
def quick() -> dict[tuple[str, str], Cell]:
    """Every cell, measured quickly, once for all tests."""
    return {(row.algorithm.facts.name, row.kind): row for row in measure(chosen(), QUICK)}


def test_there_is_a_row_for_every_algorithm_in_every_scenario() -> None:
    """24 algorithms and the control without compensation, four scenarios each."""
    assert list(quick()) == [(name, kind) for name in (*ALGORITHMS, *CONTROLS) for kind in SCENARIOS]


def test_every_claim_holds_or_is_explained() -> None:
    """Nobody holds less than the paper says, but for the cell whose paragraph says why."""
    assert {cell for cell, row in quick().items() if not row.claim_holds} == set(EXPLAINED)


@pytest.mark.parametrize("name", ["basic", "sweep-uncompensated"])
@pytest.mark.parametrize("kind", SCENARIOS)
def test_the_controls_fail(name: str, kind: str) -> None:
    """Without compensation not even convergence is left, in every scenario."""
    assert quick()[name, kind].measured == "none"


CLAIMED = [(name, kind) for name, cls in ALGORITHMS.items() for kind in SCENARIOS if kind in cls.facts.claims]


@pytest.mark.parametrize(("name", "kind"), [cell for cell in CLAIMED if cell not in EXPLAINED])
def test_a_claim_is_held_and_the_level_above_it_is_not(name: str, kind: str) -> None:
    """Exactly what the paper says: where that is not complete, a schedule shows that no more holds."""
    row = quick()[name, kind]
    assert (row.measured, row.claim_holds) == (row.claimed, True)
    assert (row.counterexample() is None) == (row.claimed == "complete")


def test_a_document_has_what_programs_read() -> None:
    """The promised keys and no other, levels by name, a counterexample exactly where a level is left to break."""
    for row in quick().values():
        document = row.document()
        assert [*document] == ["algorithm", "scenario", "claimed", "measured", "schedules", "counterexample"]
        assert {document["claimed"], document["measured"]} <= set(NAMES)
        assert document["schedules"] >= row.by_lot == 200
        assert (document["counterexample"] is None) == (document["measured"] == "complete")


@pytest.mark.parametrize("kind", SCENARIOS)
def test_a_counterexample_is_a_scenario_that_shows_it(kind: str) -> None:
    """Read back and run, it ends as written and holds the level measured, no more."""
    broken = {name: row for (name, at), row in quick().items() if at == kind and row.broken is not None}
    assert broken.keys() >= set(CONTROLS)
    for name, row in broken.items():
        scenario = parse(tomllib.loads(row.document()["counterexample"]))
        world = scenario.begin(row.algorithm, unchecked=True)
        run_listed(world, scenario.schedules[0].steps)
        expected = scenario.schedules[0].expect[name]
        assert (world.states, row.measured) == (expected.states, expected.level)
        assert highest_level(scenario.lattice, world.states) == row.measured


def test_refusals_are_measured_all_the_same() -> None:
    """What asks one source for everything is refused over several, and would converge there only by luck."""
    for name in ("eca", "eca-key", "eca-local", "lca"):
        assert quick()[name, "single-source"].refused is None
        for kind in SCENARIOS[1:]:
            row = quick()[name, kind]
            assert row.refused is not None
            assert row.measured == "none"


def test_a_global_transaction_part_by_part() -> None:
    """T-Strobe shows global transactions in parts: only convergent, yet strong where each part counts for itself."""
    row = quick()["t-strobe", "global"]
    assert (row.measured, row.by_parts) == ("convergence", "strong")
    assert quick()["g-strobe", "global"].measured == "strong"


def test_parts_on_their_own_are_no_global_transaction() -> None:
    """Taken apart, a scenario is of another kind and has more legal vectors."""
    scenarios = list(built_in("global", ALGORITHMS["copies"]))
    assert scenarios
    for scenario in scenarios:
        apart = in_parts(scenario)
        assert kind_of(apart) != "global"
        assert len(list(apart.lattice.legal_vectors())) > len(list(scenario.lattice.legal_vectors()))


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_processes() -> None:
    """One process or two: the same rows to the last count."""
    algorithms = chosen(["strobe", "pvm", "ring"])
    one, two = (measure(algorithms, QUICK, seed=3, processes=processes) for processes in (1, 2))
    assert one == two


@pytest.mark.slow
def test_another_seed_is_another_run() -> None:
    """The seed reaches the scenarios."""
    one, other = (measure(chosen(["sweep"]), QUICK, seed=seed, processes=1) for seed in (1, 2))
    assert (one[0].measured, other[0].measured) == ("complete", "complete")
    assert [(row.states, row.schedules) for row in one] != [(row.states, row.schedules) for row in other]


def squares_on(page: str) -> list[Square]:
    """Those of the table that a page holds."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    return [_square(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def _square(name: str, scenario: str, claimed: str, measured: str, *_: str) -> Square:
    level = measured.replace(",", "").split()[0]
    return Square(name, scenario, None if claimed == NO_CLAIM else claimed, level, measured.endswith("refused"))


def test_the_registry_holds_what_the_page_shows() -> None:
    """The kept levels are those of the table, for all 24, and nobody is below the claim unexplained."""
    kept = squares_on(PAGE.read_text(encoding="utf-8"))
    shown = {(square.algorithm, square.scenario): square.measured for square in kept if square.algorithm in ALGORITHMS}
    assert shown == {(name, kind): measured()[name][kind] for name in ALGORITHMS for kind in SCENARIOS}
    for (name, kind), level in shown.items():
        claim = ALGORITHMS[name].facts.claims.get(kind, "none")
        assert NAMES.index(level) >= NAMES.index(claim) or (name, kind) in EXPLAINED


def test_a_quick_run_finds_no_less_than_the_kept_one_allows() -> None:
    """More schedules can only lower a level: what the full run held, the quick one holds."""
    for (name, kind), row in quick().items():
        if name in ALGORITHMS:
            assert NAMES.index(row.measured) >= NAMES.index(measured()[name][kind]), (name, kind)


def test_the_full_effort_is_the_one_asked_for() -> None:
    """Every schedule up to 3 sources and 4 updates; 10,000 random ones per cell, up to 5 sources and 30 updates."""
    assert max((size.sources, size.updates) for size in FULL.small) == (3, 4)
    for lots in (FULL.large, FULL.refused):
        assert sum(runs.size.scenarios * runs.each for runs in lots) == 10_000
    assert max((runs.size.sources, runs.size.updates) for runs in FULL.large) == (5, 30)


def test_a_shorter_schedule_takes_the_place_of_a_longer_one() -> None:
    """Whichever is found first."""
    row = Cell(ALGORITHMS["basic"], "single-source")
    (scenario, *_) = built_in("single-source", row.algorithm)
    steps = [Step(RUN, update.name) for update in scenario.updates for _ in range(3)]
    for length in (2, 3, 1, 2):
        row.note("none", scenario, tuple(steps[:length]))
    assert row.shortest["none"].schedule == (steps[0],)


@pytest.mark.parametrize(("name", "kind"), EXPLAINED)
def test_a_claim_that_does_not_hold_has_its_paragraph_and_schedule(name: str, kind: str) -> None:
    """Under its heading the page names a built-in scenario, and the steps it quotes are that scenario's."""
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## Where measurement and claim differ")[2].partition("\n## ")[0]
    assert f"`{name}`, {kind}: claimed {ALGORITHMS[name].facts.claims[kind]}, measured" in section.replace("**", "")
    spans = re.findall(r"`([^`]*)`", section)
    (scenario,) = [find(span) for span in spans if span in names()]
    quoted = [step.strip() for span in spans if ";" in span for step in span.split(";")]
    assert quoted == [str(step) for step in scenario.schedules[0].steps]
    assert scenario.schedules[0].expect[name].level == measured()[name][kind]


def test_levels_written_are_read_back() -> None:
    """The file's text is TOML by algorithm and scenario."""
    levels = {"a": {"global": "weak"}, "b": {"global": "none"}}
    assert tomllib.loads(written(levels)) == levels


def test_the_table_replaces_the_one_on_the_page() -> None:
    """What stands before and behind it stays."""
    rows = list(quick().values())
    page = put_into(f"before\n{BEGIN}\na former table\n{END}\nafter", rows)
    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert "a former table" not in page
    assert put_into(page, rows) == page
    assert len(markdown(rows).splitlines()) == len(rows) + 2


def test_the_picture_shows_every_cell(tmp_path: Path) -> None:
    """A rectangle per cell, small enough for a README."""
    shown = squares(list(quick().values()))
    path = write_picture(shown, tmp_path / "spectrum.svg")
    assert draw(shown).count("<rect") == 1 + len(shown) + len(NAMES)
    assert path.stat().st_size < 100_000


def test_the_kept_picture_is_that_of_the_kept_table() -> None:
    """Drawn again from the page it is the same to the byte; and a page gives back what was written on it."""
    assert draw(squares_on(PAGE.read_text(encoding="utf-8"))) == PICTURE.read_text(encoding="utf-8")
    rows = list(quick().values())
    assert squares_on(put_into(BEGIN + END, rows)) == squares(rows)


def test_level_and_mark_fit_side_by_side() -> None:
    """In every cell of the kept picture, at 0.6 of the size a letter and a tenth more where they are bold."""
    shown = squares_on(PAGE.read_text(encoding="utf-8"))
    assert max(0.6 * (12 * len(square.measured) + 11 * len(square.mark)) for square in shown) <= WIDTH - 2 * 8
    assert "claim: weak" in {square.mark for square in shown}


def test_counterexamples_become_files(tmp_path: Path) -> None:
    """One per cell that is not complete, named after it."""
    rows = [quick()["eca", "single-source"], quick()["lca", "single-source"]]
    assert [path.name for path in write_counterexamples(rows, tmp_path)] == ["eca-single-source.toml"]


@pytest.mark.slow
def test_one_cell_in_full() -> None:
    """SWEEP over source-local transactions: complete on all schedules, 10,000 random ones among them."""
    row = next(row for row in measure(chosen(["sweep"]), FULL) if row.kind == "source-local")
    assert (row.measured, row.by_lot) == ("complete", 10_000)
    assert row.explored > 100_000
