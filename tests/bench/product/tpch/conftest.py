"""TPC-H data for every test: a small scale, generated once."""

from __future__ import annotations

import pytest

from weir.bench.product.tpch.data import Data, generate


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Scale 0.001: 6,000 lines."""
    return generate(0.001, tmp_path_factory.mktemp("tpch"))
