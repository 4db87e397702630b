"""``weir bench``: measurements, as tables, pictures or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weir.algebra.errors import WeirError
from weir.cli.soak import soak
from weir.cli.terminal import print_lines

bench_app = typer.Typer(
    help="Measure: the papers' figures, the simulator, the sources, the engine.", no_args_is_help=True
)
bench_app.command()(soak)

OnlyJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer points.")]
PicturesFolder = Annotated[Path, typer.Option(help="Folder for the pictures.")]
PictureFolder = Annotated[Path, typer.Option(help="Folder for the picture.")]


def _tell(as_json: bool, document: Mapping[str, Any], parts: Iterable[Table | str]) -> None:
    """What every bench prints: one document, or else tables, what is said below them, and where pictures are.

    Parts are made as they are printed, so nothing is drawn for the sake of a document.
    """
    if as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    console = Console()
    for part in parts:
        console.print(part, highlight=False)


# Every command imports what it runs when it is run: what draws, and Spark, is slow to load.


@bench_app.command()
def eca(as_json: OnlyJson = False, out: PicturesFolder = Path("out/bench-eca"), quick: Quick = False) -> None:
    """Figures 6.2 to 6.5 of the ECA paper: formulas against what the simulator measures."""
    from weir.bench.papers.eca.report import BENCH

    _tell(as_json, *BENCH.run(quick, out))


@bench_app.command()
def partition(as_json: OnlyJson = False, out: PicturesFolder = Path("out/bench-partition")) -> None:
    """Refresh times of the Partition paper: formulas against what the simulator measures, and the space they cost."""
    from weir.bench.papers.partition.report import BENCH

    _tell(as_json, *BENCH.run(False, out))


@bench_app.command()
def pvm(as_json: OnlyJson = False, out: PicturesFolder = Path("out/bench-pvm"), quick: Quick = False) -> None:
    """Figures 21 to 26 of the PVM paper: its model against virtual time."""
    from weir.bench.papers.pvm.report import BENCH

    _tell(as_json, *BENCH.run(quick, out))


@bench_app.command()
def strobe(as_json: OnlyJson = False, out: PicturesFolder = Path("out/bench-strobe"), quick: Quick = False) -> None:
    """How C-Strobe's queries grow with deletes and tables, against SWEEP."""
    from weir.bench.papers.strobe.report import BENCH

    _tell(as_json, *BENCH.run(quick, out))


@bench_app.command()
def explore(
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", "-a", help="Which algorithms, by name; repeat for several.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", help="Sources x updates at each, as in 3x3; repeat for several.")
    ] = None,
    as_json: OnlyJson = False,
    quick: Quick = False,
) -> None:
    """How fast every schedule of a small scenario is explored."""
    from weir.bench.simulator import exploring as benchmark

    chosen = tuple(algorithm) if algorithm else benchmark.ALGORITHMS
    sizes = [benchmark.ChainSize.parse(text) for text in size or ()]
    results = benchmark.measure(chosen, sizes or (benchmark.QUICK if quick else benchmark.SIZES))
    _tell(as_json, benchmark.document(results), [benchmark.table(results)])


@bench_app.command()
def ring(as_json: OnlyJson = False, out: PictureFolder = Path("out/bench-ring")) -> None:
    """Latencies of ring and star in virtual time, beside the Ring paper's."""
    from weir.bench.papers import ring as benchmark

    rows = benchmark.measure()
    _tell(as_json, benchmark.document(rows), benchmark.shown(rows, out))


@bench_app.command()
def read(
    rows: Annotated[int, typer.Option(help="Rows of the view.")] = 1_000_000,
    log: Annotated[float, typer.Option(help="Rows that have changed since the load, as a share of the view's.")] = 0.08,
    as_json: OnlyJson = False,
    quick: Quick = False,
) -> None:
    """What reading a maintained view costs against a plain table, by Weir on Spark and by other clients."""
    from weir.bench.product import read as benchmark
    from weir.spark.session import open_session

    session = open_session("local[*]", "weir bench read")
    try:
        readings = benchmark.measure(session, 20_000 if quick else rows, log, runs=1 if quick else 15)
    finally:
        session.stop()
    _tell(as_json, benchmark.document(readings), [benchmark.table(readings)])


@bench_app.command()
def sources(
    kind: Annotated[
        list[str] | None, typer.Option("--kind", "-k", help="sqlite, postgres, postgres-triggers, mariadb; or all.")
    ] = None,
    as_json: OnlyJson = False,
    quick: Quick = False,
) -> None:
    """Visits, changes and lookups of real databases, beside their bare drivers. Starts private servers."""
    from weir.bench.product import sources as benchmark

    sizes = benchmark.QUICK if quick else benchmark.SourceSizes()
    results = list(benchmark.measure(kind or (), sizes))
    _tell(as_json, benchmark.document(results, sizes), [benchmark.table(results), *benchmark.notes(results)])


@bench_app.command()
def versions(as_json: OnlyJson = False, quick: Quick = False) -> None:
    """What opening, reading and committing cost after a hundred and after a hundred thousand versions."""
    from weir.bench.product import versions as benchmark

    told: Callable[[str], None] = (lambda _: None) if as_json else lambda line: print_lines([line])
    ages = benchmark.measure(benchmark.QUICK if quick else benchmark.MARKS, told)
    _tell(as_json, benchmark.document(ages), [benchmark.table(ages)])


@bench_app.command()
def tpch(
    scale: Annotated[float, typer.Option(help="TPC-H scale: 1 is 6 million order lines.", min=0.001)] = 1.0,
    scales: Annotated[str, typer.Option(help="Several scales, as in 0.1,1, to see that cost stays flat.")] = "",
    sources: Annotated[str, typer.Option(help="postgres, sqlite, mariadb or mixed; private ones are started.")] = (
        "postgres"
    ),
    repeats: Annotated[int, typer.Option(help="Batches of each size.", min=1)] = 5,
    changes: Annotated[str, typer.Option(help="Sizes of the batches, in row changes.")] = "1,100,10000",
    seed: Annotated[int, typer.Option(help="Decides which rows change.")] = 0,
    as_json: OnlyJson = False,
    out: PictureFolder = Path("out/bench-tpch"),
) -> None:
    """A view over five TPC-H tables at three sources: maintained, recomputed on Spark, and by bare drivers.

    Exits with 1 if the maintained view differs from the recomputed one, or its audit finds a difference.
    """
    from weir.bench.product.tpch import report
    from weir.bench.product.tpch.run import TpchPlan, all_apart, measure

    sizes = tuple(int(each) for each in _numbers("--changes", changes))
    wanted = _numbers("--scales", scales) if scales else [scale]
    plans = [TpchPlan(each, sources, sizes, repeats, seed=seed) for each in wanted]
    progress = Console(stderr=True, quiet=as_json)
    outcomes = [measure(plan, all_apart, lambda text: progress.print(text, style="dim")) for plan in plans]
    picture = report.picture(outcomes, out)
    _tell(as_json, {**report.document(outcomes), "picture": str(picture)}, report.shown(outcomes, picture))
    if not report.exact(outcomes):
        raise typer.Exit(1)


def _numbers(option: str, text: str) -> list[float]:
    """Positive numbers with commas between them."""
    try:
        found = [float(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) <= 0:
        raise WeirError(f"{option} '{text}': give numbers above 0 with commas between them, as in 0.1,1")
    return found
