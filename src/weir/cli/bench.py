"""``weir bench NAME``: the papers' figures and our own measurements, one command each."""

from __future__ import annotations

import typer

bench_app = typer.Typer(no_args_is_help=True)


@bench_app.callback()
def _bench() -> None:
    """The papers' figures and the benchmarks: formula and measurement side by side."""
