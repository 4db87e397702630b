"""``weir bench soak``: writers for a long time on live databases, and everything a view promises asked of it."""

from __future__ import annotations

from typing import Annotated

import typer

from weir.cli.terminal import print_json


def soak(
    seconds: Annotated[float, typer.Option(min=1, help="How long the writers write.")] = 600.0,
    rate: Annotated[float, typer.Option(min=1, help="Transactions per second at each of the three sources.")] = 100.0,
    writers: Annotated[int, typer.Option(min=1, help="Writers at each source.")] = 2,
    crm: Annotated[str, typer.Option(help="The kind of the source of customers.")] = "postgres",
    sales: Annotated[str, typer.Option(help="The kind of the source of orders.")] = "mariadb",
    shop: Annotated[str, typer.Option(help="The kind of the source of items.")] = "sqlite",
    seed: Annotated[int, typer.Option(help="Of the traffic.")] = 1,
) -> None:
    """Keep a complete view under writers; then lag, memory, the audit and every recorded state. Prints JSON.

    Starts private servers. Exit code 1: something is not as promised.
    """
    from weir.bench.product.soak.run import Soak  # Spark is slow to load
    from weir.bench.product.soak.run import soak as run_soak

    report = run_soak(Soak(seconds, rate, writers, seed), {"crm": crm, "sales": sales, "shop": shop})
    print_json(report.document())
    if report.problems:
        raise typer.Exit(1)
