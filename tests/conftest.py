"""Fixtures for every test."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from weir.spark.session import open_session

# Failing expressions are part of the tests, their stack traces are not; and two partitions are enough for a few rows.
SETTINGS = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}


# The same examples every time: a red run means that something changed here, and a machine's speed decides nothing.
settings.register_profile("weir", derandomize=True, deadline=None)
settings.load_profile("weir")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session for the whole run. WEIR_TEST_SPARK says where: a master or a Spark Connect address."""
    session = open_session(os.environ.get("WEIR_TEST_SPARK", "local[2]"), "weir tests", SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def own_logging() -> Iterator[None]:
    """For commands run in this process: they log to their terminal, and other tests shall not."""
    log = logging.getLogger("weir")
    before = log.handlers, log.propagate, log.level
    yield
    log.handlers, log.propagate, log.level = before
