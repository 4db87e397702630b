"""Tests of the PostgreSQL sources, on a real server."""
