"""Tests of what Weir is proved with."""
