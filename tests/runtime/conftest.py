"""One private server of each kind for all end-to-end tests, and shops that clean up behind themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.runtime.databases import private_servers
from tests.runtime.shop import Shop
from weir.proving.databases import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with private_servers() as made:
        yield made


@pytest.fixture
def open_shop(servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """Opens shops; they are closed when the test is over."""
    opened: list[Shop] = []

    def open_(**options: Any) -> Shop:
        folder = tmp_path / f"shop{len(opened)}"
        folder.mkdir()
        opened.append(Shop(options.pop("servers", servers), spark, folder, **options))
        return opened[-1]

    yield open_
    for shop in opened:
        shop.close()
