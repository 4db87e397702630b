"""Fixtures for every test."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tests.runtime.databases import private_servers  # sets the servers' password before Spark's processes start
from tests.runtime.shop import Shop
from weir.proving.databases import Servers, password_variable
from weir.spark.session import open_session

# Failing expressions are part of the tests, their stack traces are not; and two partitions are enough for a few rows.
SETTINGS = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}


# The same examples every time: a red run means that something changed here, and a machine's speed decides nothing.
settings.register_profile("weir", derandomize=True, deadline=None)
settings.load_profile("weir")


# Whoever starts Spark first, its tasks know the passwords of servers that tests start later.
for _number in range(1, 200):
    os.environ.setdefault(password_variable(_number), secrets.token_hex(16))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session for the whole run. WEIR_TEST_SPARK says where: a master or a Spark Connect address."""
    session = open_session(os.environ.get("WEIR_TEST_SPARK", "local[2]"), "weir tests", SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def own_logging() -> Iterator[None]:
    """For commands run in this process: they log to their terminal, and other tests shall not."""
    log, root = logging.getLogger("weir"), logging.getLogger()
    before, others = (log.handlers, log.propagate, log.level), root.handlers
    yield
    (log.handlers, log.propagate, log.level), root.handlers = before, others


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """One private server of each kind for all end-to-end tests."""
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
