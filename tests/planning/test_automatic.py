"""The rules of ``auto``: told in the docs as they are, and each of them takes a view."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.planning.test_choice import CATALOG, MANY, ONE, THREE, view
from weir.algebra.catalog import Relation
from weir.planning.automatic import RULES, Rule
from weir.planning.choice import ViewFacts, choose
from weir.planning.request import Request

PAGE = (Path(__file__).parents[2] / "docs" / "choosing-a-strategy.md").read_text(encoding="utf-8")
FEW = {"changes": "2", "space": "auxiliary"}
TAKEN: dict[str, tuple[str, Mapping[Relation, int], dict[str, str]]] = {  # by a rule's words: a view that it takes
    RULES[0].views: (THREE, MANY, {"space": "copies"}),
    RULES[1].views: (THREE, MANY, {**FEW, "consistency": "complete"}),
    RULES[2].views: (THREE, MANY, FEW),
    RULES[3].views: (ONE, dict.fromkeys(MANY, 10), {"changes": "2000000"}),
    RULES[4].views: (ONE, MANY, {}),
    RULES[5].views: (ONE, MANY, {"consistency": "complete"}),
    RULES[6].views: (THREE, MANY, {"transactions": "global"}),
    RULES[7].views: (THREE, MANY, {}),
}


def test_the_docs_tell_the_same_rules_in_the_same_order() -> None:
    """Which views, and what they get."""
    table = re.findall(r"^\| (.+?) \| `([a-z-]+)` \| .+ \|$", PAGE.partition("## What `auto` does")[2], re.MULTILINE)
    assert table[: len(RULES)] == [(rule.views, rule.proposes.facts.name) for rule in RULES]
    assert len(table) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.views))
def test_each_rule_takes_a_view(rule: Rule) -> None:
    """Its reason is the first that is told."""
    query, rows, options = TAKEN[rule.views]
    asked, facts = view(query, **options), ViewFacts(CATALOG, rows)
    choice, request = choose(asked, facts), Request.of(asked, facts)
    assert rule.speaks(request)
    assert (choice.strategy, (True, choice.reasons[0])) == (rule.proposes.facts.name, rule.verdict(request))
