"""Tests of ``weir bench tpch``."""
