"""Why a measurement of ``weir bench eca`` differs from the paper's formula by more than a tenth."""

from __future__ import annotations

NETTED = (
    "our answer is one bag, in which a tuple that one term adds and another takes away is gone; "
    "the formula counts both, and these updates undo each other"
)
OUTER = (
    "counts also the loads of the outer loops' blocks, which the formula leaves out, and a sixth block if there is one"
)
SMALL_RELATION = "C tuples are one join value here, and one tuple more or less of J = 4 is a quarter of it"
UNEVEN = "{x} updates cannot be spread evenly over three relations, and their queries cost differently"
HALF_WAY = "half way through six updates the updated join value has J + 1 or J - 1 tuples a relation, and J is only 4"
SELECTIVITY = "the updated tuples' own W and Z pass W > Z half of the time only over rounds of 24 updates"
SIXTH_BLOCK = "100 tuples fill five blocks to the last place, so a relation is read in six while it has one tuple more"
EARLY = "the curves meet after so few updates that one tuple more or less in J = 4 and a sixth block decide"


def reason(figure: str, series: str, x: int) -> str:
    """One sentence for a point of a figure."""
    if series.endswith("netted"):
        return NETTED
    if series.endswith("all reads"):
        return OUTER
    if figure == "crossovers":
        return EARLY
    if figure == "6.2":
        return SMALL_RELATION
    if figure in ("6.4", "6.5") and (series.startswith("RV") or figure == "6.5"):
        return HALF_WAY if series.endswith("96") else SIXTH_BLOCK
    if x % 3:
        return UNEVEN.format(x=x)
    return HALF_WAY if x % 6 else SELECTIVITY
