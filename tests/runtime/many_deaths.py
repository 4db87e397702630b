"""kill -9 at every named point, many times each: the recovery test again and again, with other seeds.

``python -m tests.runtime.many_deaths --times 100 [--first 1000]`` takes hours; ``make soak`` runs it. Each sequence of
lives is checked as the test does it: audits, every arrival against a replay, one vector, the files. A line of JSON per
sequence tells how often each point has been died at so far.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

from tests.runtime.test_recovery import deaths, recover_from
from weir import points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="how often at each point")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    given = parser.parse_args()
    died: Counter[str] = Counter(dict.fromkeys(points.POINTS, 0))
    began = time.monotonic()
    for seed in count(given.first):
        sequence = deaths(seed)
        with tempfile.TemporaryDirectory(prefix="weir-deaths-") as folder:
            recover_from(Path(folder), seed, sequence, own_spark=False)
        died.update(point for point, _ in sequence)
        print(json.dumps({"seed": seed, "seconds": round(time.monotonic() - began), "died": died}), flush=True)
        if min(died.values()) >= given.times:
            return


if __name__ == "__main__":
    main()
