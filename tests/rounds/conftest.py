"""The private servers and shops of the end-to-end tests."""

from __future__ import annotations

from tests.runtime.conftest import open_shop, servers

__all__ = ["open_shop", "servers"]
