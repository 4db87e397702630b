"""The fuzz's databases, on the servers that all end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weir.proving.databases import Servers
from weir.proving.fuzz.places import FuzzPlaces


@pytest.fixture(scope="module")
def places(servers: Servers) -> Iterator[FuzzPlaces]:
    with FuzzPlaces(servers) as made:
        yield made
