"""The choice of an algorithm: what ``auto`` takes and why, and how a named strategy is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.sql import parse_view
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.algorithms.registry import ALGORITHMS
from weir.consistency.levels import implies
from weir.planning.choice import CannotMaintain, Choice, ViewFacts, choose
from weir.planning.costs import TableSizes, crossover, maintaining, recomputing
from weir.planning.routes import routes


def table(name: str, columns: str, key: str = "", *indexes: str) -> Table:
    source, _, own = name.partition(".")
    keys = tuple(key.split())
    return Table(Relation(source, own), Schema.parse(columns), keys, indexes=tuple((index,) for index in indexes))


CATALOG = Catalog.of(
    [
        table("crm.customer", "id bigint, name string, city string", "id"),
        table("crm.contact", "id bigint, customer bigint, mail string", "id", "customer"),
        table("sales.orders", "id bigint, customer bigint, day date", "id", "customer"),
        table("sales.line", "order_id bigint, number int, product bigint, amount int", "order_id number", "product"),
        table("stock.product", "id bigint, title string", "id"),
    ]
)
MANY = dict(zip(CATALOG.tables, (10_000, 20_000, 50_000, 200_000, 2_000), strict=True))
THREE = (
    "SELECT l.order_id, l.number, o.id AS o, c.id AS c, p.id AS p, c.name, p.title, l.amount FROM sales.line l "
    "JOIN sales.orders o ON o.id = l.order_id JOIN crm.customer c ON c.id = o.customer "
    "JOIN stock.product p ON p.id = l.product"
)
KEYLESS = "SELECT c.name, o.day FROM crm.customer c JOIN sales.orders o ON o.customer = c.id"
ONE = "SELECT c.name, m.mail FROM crm.customer c JOIN crm.contact m ON m.customer = c.id"


def view(query: str, **options: str) -> View:
    head = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    return parse_view(f"CREATE MATERIALIZED VIEW v {f'WITH ({head})' if head else ''} AS {query}", CATALOG)


def chosen(query: str, rows: Mapping[Relation, int] = MANY, marked: bool = True, **options: str) -> Choice:
    return choose(view(query, **options), ViewFacts(CATALOG, rows, marked))


def refusal(query: str, rows: Mapping[Relation, int] = MANY, marked: bool = True, **options: str) -> str:
    with pytest.raises(CannotMaintain) as caught:
        chosen(query, rows, marked, **options)
    return str(caught.value)


# -- auto -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["convergence", "weak", "strong", "complete"])
def test_several_sources_are_swept_in_batches(level: str) -> None:
    """Whatever the level: the batched sweep costs least and promises most."""
    choice = chosen(THREE, consistency=level)
    assert (choice.strategy, choice.level, choice.scenario) == ("pvm-cc", "complete", "source-local")
    assert choice.options == {"batch": 10_000}
    assert "3 sources (sales, crm, stock)" in choice.reasons[0]
    assert "at most 6 lookups" in choice.reasons[0]


def test_one_source_is_asked_once() -> None:
    """Batch ends are enough, so all changes of a round are one question."""
    choice = chosen(ONE)
    assert (choice.strategy, choice.level, choice.merge, choice.estimate.messages) == ("eca", "strong", True, 2)


def test_one_source_with_every_state() -> None:
    """ECA skips states; the sweep does not."""
    choice = chosen(ONE, consistency="complete")
    assert (choice.strategy, choice.level, choice.merge) == ("pvm-cc", "complete", False)


def test_a_function_that_only_spark_knows() -> None:
    """Over one source too it goes to a sweep, and the reason names the expression."""
    choice = chosen("SELECT soundex(c.name) AS s FROM crm.customer c")
    assert choice.strategy == "pvm-cc"
    assert any("not eca: only Spark evaluates soundex(c.name)" in reason for reason in choice.reasons)


def test_recomputing_one_small_source() -> None:
    """Below the crossover it maintains, from there on it recomputes, and both say where that is."""
    small = dict.fromkeys(MANY, 500)
    limit = crossover(view(ONE), TableSizes(small, CATALOG))
    assert limit is not None
    assert limit > 1
    below, at = (chosen(ONE, small, changes=str(changes)) for changes in (limit - 1, limit))
    assert (below.strategy, at.strategy) == ("eca", "recompute")
    assert f"from about {limit:,} changes" in " ".join(below.reasons)
    assert "recomputing is cheaper" in at.reasons[0]
    assert at.options == {"every": 10_000}


def test_recomputing_is_never_silent_over_several_sources() -> None:
    """It would be cheaper and is said to be; the view is maintained all the same."""
    choice = chosen(THREE, dict.fromkeys(MANY, 10), changes="200000")
    assert choice.strategy == "pvm-cc"
    assert "recomputing would be cheaper" in choice.reasons[-1]
    assert "mix states of different moments" in choice.reasons[-1]


def test_unknown_sizes_are_said() -> None:
    """Nothing is guessed about recomputing when a source has no statistics."""
    choice = chosen(ONE, {})
    assert choice.strategy == "eca"
    assert "no statistics of crm.customer, crm.contact" in " ".join(choice.reasons)


def test_space_decides_about_copies() -> None:
    """Small enough and allowed: no source is asked. Too large: said, and swept."""
    small = chosen(THREE, space="copies", consistency="complete")
    assert (small.strategy, small.estimate.messages) == ("copies", 0)
    large = chosen(THREE, dict.fromkeys(MANY, 10_000_000), space="copies")
    assert large.strategy == "pvm-cc"
    assert "no copies, though allowed: about 40,000,000 rows are too many" in " ".join(large.reasons)


def test_space_decides_about_auxiliary_views() -> None:
    """They pay for few changes a batch over three tables or more."""
    few: dict[str, Any] = {"space": "auxiliary", "changes": "2"}
    assert chosen(THREE, consistency="complete", **few).strategy == "equal-partition"
    assert chosen(THREE, **few).strategy == "parallel-partition"
    assert chosen(THREE, space="auxiliary", changes="100").strategy == "pvm-cc"
    assert chosen(KEYLESS, **few).strategy == "pvm-cc"


def test_global_transactions() -> None:
    """With keys and identifiers G-Strobe; without them a refusal that says what is missing."""
    assert chosen(THREE, transactions="global").strategy == "g-strobe"
    assert "its select list lacks the key of crm.customer" in refusal(KEYLESS, transactions="global")
    assert "carry no identifier" in refusal(THREE, marked=False, transactions="global")
    assert "promises 'strong' for global transactions" in refusal(THREE, transactions="global", consistency="complete")
    assert chosen(KEYLESS, transactions="global", consistency="convergence").strategy == "pvm-cc"


@pytest.mark.parametrize("query", [THREE, KEYLESS, ONE])
@pytest.mark.parametrize("level", ["none", "convergence", "weak", "strong", "complete"])
def test_what_is_chosen_promises_what_was_asked(query: str, level: str) -> None:
    """And every strategy called possible can be named with the same outcome."""
    choice = chosen(query, consistency=level)
    assert implies(choice.level, level)
    for name in choice.possible:
        named = chosen(query, consistency=level, strategy=name)
        assert (named.strategy, named.automatic, named.merge) == (name, False, False)
    for name in choice.rejected:
        if ALGORITHMS[name].facts.space == "":  # naming an algorithm allows what it stores
            assert name in refusal(query, consistency=level, strategy=name)


# -- named ------------------------------------------------------------------------------------------------------------


def test_a_strategy_that_promises_less() -> None:
    """It is refused with the level it has and the strategies that would do."""
    message = refusal(THREE, strategy="basic")
    assert "cannot be kept by basic at consistency = 'strong': it promises 'none' over several sources" in message
    assert "pvm-cc" in message
    assert "ask for consistency = 'none'" in message
    assert chosen(THREE, strategy="basic", consistency="none").level == "none"


def test_a_strategy_that_needs_more() -> None:
    """Keys, one source: the need is named."""
    assert "its select list lacks the key of crm.customer" in refusal(KEYLESS, strategy="t-strobe")
    assert "it spans the sources crm, sales" in refusal(KEYLESS, strategy="eca")
    assert "it stores" in refusal(THREE, strategy="copies", space="none")


def test_a_strategy_outside_spark_and_a_function_of_sparks() -> None:
    """Refused by name."""
    query = "SELECT c.id, o.id AS o, soundex(c.name) AS s FROM crm.customer c JOIN sales.orders o ON o.customer = c.id"
    assert "only Spark evaluates soundex(c.name)" in refusal(query, strategy="t-strobe")
    assert chosen(query, strategy="sweep").strategy == "sweep"


def test_an_unknown_strategy() -> None:
    """With the near ones."""
    assert "unknown algorithm 'sweeep'; did you mean 'sweep'?" in refusal(THREE, strategy="sweeep")


def test_options_become_values() -> None:
    """As the constructor takes them; the user's win over ours."""
    assert chosen(THREE, strategy="sweep", batch="7").options == {"batch": 7}
    assert chosen(THREE, strategy="basic", consistency="none", keys="true").options == {"keys": True}
    frequencies = chosen(THREE, strategy="frequency-partition", frequencies="crm.customer: 10, sales.line: 3")
    assert frequencies.options["frequencies"] == {"crm.customer": 10, "sales.line": 3}


WRONG_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"strategy": "sweep", "bach": "7"}, "strategy sweep has no option 'bach'; did you mean 'batch'?"),
    "of another": ({"every": "7"}, "strategy pvm-cc has no option 'every'"),
    "not a number": ({"batch": "many"}, "option batch = 'many' of strategy pvm-cc is wrong; give a whole number"),
    "not a word": ({"strategy": "basic", "consistency": "none", "keys": "maybe"}, "give 'true' or 'false'"),
    "laboratory": ({"strategy": "pvm", "consistency": "none", "negative_counters": "false"}, "has no option"),
    "space": ({"space": "copy"}, "space = 'copy'; did you mean 'copies'?"),
    "scope": ({"transactions": "all"}, "transactions = 'all'"),
    "changes": ({"changes": "0"}, "give a whole number of at least 1"),
}


@pytest.mark.parametrize("mistake", WRONG_OPTIONS)
def test_a_wrong_option_is_told(mistake: str) -> None:
    """One message with what would be right."""
    options, words = WRONG_OPTIONS[mistake]
    message = refusal(THREE, **options)
    assert words in message
    assert "view v" in message


# -- the model --------------------------------------------------------------------------------------------------------


def test_routes_ask_by_key_and_know_the_index() -> None:
    """From orders: its customer by key, its lines by key, then their products."""
    route = next(route for route in routes(view(THREE), CATALOG) if route.slot == 1)
    asked = [(str(hop.relation), hop.lookup.key_columns, hop.known, hop.index) for hop in route.hops]
    assert ("crm.customer", ("id",), ("o.customer",), ("id",)) in asked
    assert ("sales.line", ("order_id",), ("o.id",), ("order_id", "number")) in asked
    assert ("stock.product", ("id",), ("l.product",), ("id",)) in asked


def test_the_cost_of_a_batch_follows_the_changes_not_the_tables() -> None:
    """Ten times the data, the same ratios: maintaining costs the same, recomputing ten times as much."""
    tenfold = {relation: 10 * rows for relation, rows in MANY.items()}
    small, large = (TableSizes(rows, CATALOG) for rows in (MANY, tenfold))
    kept = view(THREE)
    assert maintaining(kept, small, 100) == maintaining(kept, large, 100)
    before, after = recomputing(kept, small), recomputing(kept, large)
    assert before is not None
    assert after is not None
    assert after.read == 10 * before.read


def test_the_crossover_is_where_the_costs_meet() -> None:
    """Just below it maintaining is cheaper, from it on it is not."""
    kept, sizes = view(THREE), TableSizes(MANY, CATALOG)
    limit, whole = crossover(kept, sizes), recomputing(kept, sizes)
    assert limit is not None
    assert whole is not None
    assert maintaining(kept, sizes, limit - 1).cost < whole.cost <= maintaining(kept, sizes, limit).cost


def test_empty_tables_have_no_crossover() -> None:
    """Where a change costs nothing, recomputing never pays, and the explanation says so."""
    nothing, pairs = dict.fromkeys(MANY, 0), "SELECT c.name, m.mail FROM crm.customer c CROSS JOIN crm.contact m"
    assert crossover(view(pairs), TableSizes(nothing, CATALOG)) is None
    assert any("costs nothing" in reason for reason in chosen(pairs, nothing).reasons)


def test_a_lookup_without_an_index_reads_the_table() -> None:
    """Which shows in the estimate."""
    bare = Catalog.of([*CATALOG.tables.values(), table("crm.contact", "id bigint, customer bigint, mail string", "id")])
    sizes = TableSizes(MANY, bare)
    assert maintaining(view(ONE), sizes, 10).read == MANY[Relation("crm", "contact")]
