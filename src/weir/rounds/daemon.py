"""The process that Spark's Python workers are forked from, with everything that a task needs imported already.

A worker that was killed, with its task or because its work was called off, is replaced within milliseconds; importing
anew would take seconds of everybody's cores.
"""

from __future__ import annotations

import pyarrow  # noqa: F401  # what a task uses
from pyspark.daemon import manager

import weir.rounds.loading
import weir.sweeping.task  # noqa: F401

if __name__ == "__main__":
    manager()
