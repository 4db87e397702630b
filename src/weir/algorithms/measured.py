"""What exploration has measured: the level every algorithm holds per transaction scenario, as ``weir spectrum
--write`` left it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

FILE = "measured.toml"


@cache
def measured() -> Mapping[str, Mapping[str, str]]:
    """By algorithm and scenario; an algorithm that was never measured is not there."""
    return tomllib.loads((files("weir.algorithms") / FILE).read_text(encoding="utf-8"))


def written(levels: Mapping[str, Mapping[str, str]]) -> str:
    """The file's text.

    >>> print(written({"eca": {"single-source": "strong"}}).splitlines()[-1])
    single-source = "strong"
    """
    lines = ["# The level that each algorithm held on all schedules explored. Written by: weir spectrum --write"]
    for name, by_scenario in levels.items():
        lines += ["", f"[{name}]", *(f'{scenario} = "{level}"' for scenario, level in by_scenario.items())]
    return "\n".join(lines) + "\n"
