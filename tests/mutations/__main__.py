"""``python -m tests.mutations``: plants every bug and says what became of it. Exits with 1 when one was not caught."""

from __future__ import annotations

import sys

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import is_below


def main() -> int:
    missed = 0
    for mutation in MUTATIONS.values():
        before, after, claim = mutation.held_without(), mutation.held_with(), mutation.claim
        caught = is_below(after, claim) and not is_below(before, claim)
        missed += not caught
        verdict = "caught" if caught else "MISSED"
        print(f"{verdict}  {mutation.name:26} {claim} -> {after}: {mutation.says} ({mutation.case.scenario().title})")
    print(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} planted bugs caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
