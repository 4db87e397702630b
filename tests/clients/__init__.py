"""Tests with Delta clients that are not ours, in environments of their own."""
