"""Tests of MariaDB and MySQL sources, on a real server."""
