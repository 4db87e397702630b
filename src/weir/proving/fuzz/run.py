"""The fuzz itself: seed after seed, each a case of its own; what fails is made small and kept as a file."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.proving.fuzz.case import FuzzCase
from weir.proving.fuzz.drawing import FUZZED_KINDS, draw_case
from weir.proving.fuzz.places import FuzzPlaces
from weir.proving.fuzz.shrinking import shrunk, signature
from weir.proving.fuzz.trial import SETTINGS, STOPPED, WRONG, FuzzFinding, TrialVerdict, run_trial
from weir.spark.session import open_session

_START = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC", "spark.log.level": "OFF"}  # stops are told by Weir


@dataclass(frozen=True)
class FuzzFailure:
    """A case that failed: its seed, what was found, and the file with its smallest form."""

    seed: int
    told: str
    file: str = ""


@dataclass
class FuzzReport:
    """The verdict over all cases; ``reasons`` counts why views were refused, ``known`` are kinds of failure seen."""

    seed: int
    kinds: Sequence[str]
    cases: int = 0
    views: int = 0
    transactions: int = 0
    comparisons: int = 0
    wrong: int = 0
    stopped: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: list[FuzzFailure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)

    @property
    def clean(self) -> bool:
        """Nothing was wrong and nothing stopped."""
        return not self.wrong and not self.stopped

    def add(self, verdict: TrialVerdict) -> None:
        """Counts one case in."""
        self.cases += 1
        self.views += len(verdict.case.views)
        self.transactions += verdict.transactions
        self.comparisons += verdict.comparisons
        self.refused += len(verdict.refused)
        self.wrong += sum(finding.what == WRONG for finding in verdict.findings)
        self.stopped += sum(finding.what == STOPPED for finding in verdict.findings)
        self.reasons.update(_reason(why) for _, why in verdict.refused)

    def as_json(self) -> dict[str, Any]:
        known = asdict(self) | {"kinds": list(self.kinds), "seconds": round(self.seconds, 1)}
        return {name: value for name, value in known.items() if name not in ("reasons", "known")}


def _reason(why: str) -> str:
    """The kind of refusal, without what it speaks of."""
    return re.sub(r"'[^']*'|`[^`]*`|view_\w+|\d+", "…", why.strip().splitlines()[0])[:100]


OnCase = Callable[[FuzzCase, TrialVerdict, FuzzReport], None]


def run_fuzz(
    seconds: float, seed: int = 0, kinds: Sequence[str] = FUZZED_KINDS, keep: Path | None = None, cases: int = 0,
    without: Collection[str] = (), on_case: OnCase | None = None,
) -> FuzzReport:  # fmt: skip
    """Cases for so long, or so many of them; what fails is kept in the folder ``keep``, a file per kind of failure."""
    for kind in kinds:
        if kind not in FUZZED_KINDS:
            raise WeirError(f"unknown kind '{kind}' to fuzz; {did_you_mean(kind, FUZZED_KINDS, 'use some of')}")
    report, began = FuzzReport(seed, kinds), time.monotonic()
    with FuzzPlaces() as places:
        spark = open_session("local[2]", "weir fuzz", {**SETTINGS, **_START})
        while (report.cases < cases) if cases else (time.monotonic() - began < seconds):
            case = draw_case(seed + report.cases, kinds, without)
            verdict = run_trial(case, places, spark)
            report.add(verdict)
            report.failures += _failures(case, verdict, report, keep, places, spark)
            report.seconds = time.monotonic() - began
            if on_case is not None:
                on_case(case, verdict, report)
    return report


def _failures(
    case: FuzzCase, verdict: TrialVerdict, report: FuzzReport, keep: Path | None, places: FuzzPlaces,
    spark: SparkSession,
) -> Iterator[FuzzFailure]:  # fmt: skip
    """What a case shows that no case before it did."""
    for finding in verdict.findings:
        if (kind := signature(finding)) in report.known:
            continue
        report.known.add(kind)
        kept = any(view.name == finding.view for view in verdict.case.views)
        failing = verdict.case if kept else case  # one that fails when it is planned is kept nowhere
        file = "" if keep is None else kept_case(failing, finding, keep, places, spark)
        yield FuzzFailure(case.seed, str(finding), file)


def kept_case(
    case: FuzzCase, finding: FuzzFinding, folder: Path, places: FuzzPlaces, spark: SparkSession, attempts: int = 150
) -> str:
    """Makes a failing case small and writes it to a file, whose name is returned."""
    small = minimised(case, finding, places, spark, attempts)
    folder.mkdir(parents=True, exist_ok=True)
    words = "-".join(re.findall(r"[a-z]+", signature(finding).lower())[:6])
    file = folder / f"{words}-{case.seed}.json"
    file.write_text(small.to_json(), encoding="utf-8")
    return str(file)


def minimised(
    case: FuzzCase, finding: FuzzFinding, places: FuzzPlaces, spark: SparkSession, attempts: int
) -> FuzzCase:
    """The smallest form of a case that fails like this; its note tells how."""
    wanted = signature(finding)
    last = finding

    def fails(candidate: FuzzCase) -> FuzzFinding | None:
        nonlocal last
        try:
            found = run_trial(candidate, places, spark).findings
        except Exception:  # a table that cannot be made, a statement without its column: no case at all
            return None
        same = next((each for each in found if signature(each) == wanted), None)
        last = same or last
        return same

    small = shrunk(case, fails, attempts)
    return replace(small, note=str(last))
