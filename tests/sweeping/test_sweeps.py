"""Batched sweeps on Spark: together, one by one and recomputed from scratch they say the same; views share lookups."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.runtime.shop import LINES, Shop, wait_until
from weir.planning.request import CannotMaintain
from weir.sweeping.job import sweep_on_spark
from weir.warehouse.record import APPEND, AsOf

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
TWO_SOURCES = {"crm": ("customer",), "sales": ("orders", "product")}
PAIRS = (  # a table joined with itself, beside another source's
    "SELECT a.id AS one, b.id AS other, c.name FROM {orders} a JOIN {orders} b ON a.product = b.product "
    "JOIN {customer} c ON c.id = b.customer WHERE a.amount <= b.amount"
)
NAMED = (  # two terms, one of them within one source
    "SELECT o.id, c.name AS what, o.amount FROM {orders} o JOIN {customer} c ON c.id = o.customer "
    "UNION ALL SELECT o.id, p.title, p.price FROM {orders} o JOIN {product} p ON p.id = o.product"
)


def _transactions(seed: int, count: int) -> Iterator[tuple[str, list[str]]]:
    """Transactions of one to three statements over all tables of a source; some do and undo."""
    dice = random.Random(seed)
    fresh = iter(range(1000, 9999))
    for _ in range(count):
        source = dice.choice(["crm", "sales", "sales"])
        yield source, [_statement(dice, source, next(fresh)) for _ in range(dice.randint(1, 3))]


def _statement(dice: random.Random, source: str, fresh: int) -> str:
    customer, product, amount = dice.randint(1, 4), dice.randint(100, 103), dice.randint(0, 3)
    if source == "crm":
        return dice.choice([
            f"INSERT INTO customer VALUES ({fresh}, 'x', NULL)",
            f"UPDATE customer SET name = 'n{amount}' WHERE id = {customer}",
            f"DELETE FROM customer WHERE id = {customer}",
            f"UPDATE customer SET id = {fresh} WHERE id = {customer}",
        ])  # fmt: skip
    return dice.choice([
        f"INSERT INTO orders VALUES ({fresh}, {customer}, {product}, {amount})",
        f"INSERT INTO orders VALUES ({fresh}, {customer}, {product}, {amount}), ({fresh}0, {customer}, NULL, 1)",
        f"UPDATE orders SET amount = amount + 1 WHERE product = {product}",
        f"DELETE FROM orders WHERE customer = {customer}",
        f"INSERT INTO product VALUES ({fresh}, 't', {amount})",
        f"UPDATE product SET id = {fresh} WHERE id = {product}",
        f"UPDATE product SET price = {amount} WHERE id >= {product}",
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kinds"), [(1, ("sqlite", "postgres")), (2, ("postgres-triggers", "sqlite"))])
def test_together_is_one_by_one_is_recomputation(open_shop: OpenShop, seed: int, kinds: tuple[str, str]) -> None:
    """On generated transactions over several relations, with self-joins and UNION ALL: the same state at every arrival,
    complete, and equal to the definition over the sources.
    """
    shop = open_shop(kinds=kinds, places=TWO_SOURCES)
    for name, select in {"pairs": PAIRS, "named": NAMED}.items():
        shop.view(name, select, consistency="complete", strategy="pvm-cc")
        shop.view(f"{name}_single", select, consistency="complete", strategy="sweep", batch="1")
    shop.catch_up()
    for number, (source, statements) in enumerate(_transactions(seed, 10), start=1):
        shop.write(source, *statements)
        if number % 5 == 0:
            shop.catch_up()
    for name in ("pairs", "named"):
        shop.assert_right("complete", name)
        assert shop.audit(f"{name}_single").clean
        assert shop.states(name) == shop.states(f"{name}_single")


def test_functions_that_only_spark_knows(open_shop: OpenShop) -> None:
    """They are applied by Spark to the swept rows, in selections and select lists, and change with the data."""
    shop = open_shop()
    shop.view(
        select="SELECT o.id AS oid, regexp_replace(upper(c.name), '[AEIOU]', '*') AS masked, "
        "date_format(date_add(DATE'2024-01-31', CAST(o.amount AS INT)), 'dd.MM.') AS due FROM {customer} c "
        "JOIN {orders} o ON o.customer = c.id JOIN {product} p ON p.id = o.product WHERE p.title RLIKE '^[a-z]+$'",
        consistency="complete",
    )
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 2, 101, 29)", "DELETE FROM orders WHERE id = 12")
    shop.write("stock", "UPDATE product SET title = 'Pen' WHERE id = 100")
    shop.write("crm", "UPDATE customer SET name = 'Abe' WHERE id = 2")
    shop.catch_up()
    assert shop.audit().clean
    assert shop.state().rows() == [(11, "*B*", "04.02."), (20, "*B*", "29.02.")]
    assert shop.state(as_of=AsOf(arrival=3)) == shop.state()


def test_a_slice_that_fans_out_goes_through_piece_by_piece(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for three rows of an answer the same states come out, self-joins and compensation included."""
    monkeypatch.setattr("weir.rounds.answering.sweep_on_spark", partial(sweep_on_spark, most_rows=3))
    shop = open_shop(kinds=("sqlite", "postgres"), places=TWO_SOURCES)
    shop.view("pairs", PAIRS, consistency="complete", strategy="pvm-cc")
    shop.catch_up()
    many = ", ".join(f"({number}, {number % 3}, 100, {number % 4})" for number in range(200, 220))
    shop.write("sales", f"INSERT INTO orders VALUES {many}")
    shop.write("crm", "UPDATE customer SET name = 'Z' WHERE id = 1", "INSERT INTO customer VALUES (0, 'Nul', NULL)")
    shop.write("sales", "DELETE FROM orders WHERE id < 205", "UPDATE product SET title = 'P' WHERE id = 100")
    shop.catch_up()
    assert shop.assert_right("complete", "pairs").rows > 100


def test_several_tasks_that_write_their_own_files(open_shop: OpenShop) -> None:
    """A large batch is cut into slices; what is too much for the driver's hands is written by the tasks."""
    shop = open_shop(kinds=("postgres", "sqlite"))
    shop.view(consistency="complete", strategy="pvm-cc")
    shop.catch_up()
    wide = "w" * 40
    rows = ", ".join(f"({number}, {1 + number % 2}, 102, 1)" for number in range(1000, 101_000))
    shop.write("stock", f"INSERT INTO product VALUES (102, '{wide}', 1)")
    shop.write("sales", f"INSERT INTO orders VALUES {rows}")
    shop.write("crm", "UPDATE customer SET name = 'B' WHERE id = 1")
    shop.catch_up()
    store = shop.warehouse.store("lines")
    brought = [action for action in store.log.actions(store.head.version) if "add" in action]
    assert len(brought) > 1  # the driver would have written one
    assert shop.audit().rows == 100_003
    assert shop.audit().clean


def _asked(open_shop: OpenShop, views: int) -> dict[str, int]:
    """What three sources were asked by a round in which each has changed."""
    shop = open_shop()
    for number in range(views):
        shop.view(f"lines{number}", consistency="complete", strategy="pvm-cc")
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    shop.write("stock", "UPDATE product SET title = 'INK' WHERE id = 101")
    shop.catch_up()
    asked: dict[str, int] = shop.warehouse.status()["asked"]
    for number in range(views):
        assert shop.audit(f"lines{number}").clean
    return asked


def test_views_share_their_lookups(open_shop: OpenShop) -> None:
    """Two views over the same tables ask each source no more often than one."""
    one, two = _asked(open_shop, 1), _asked(open_shop, 2)
    assert one["lookups"] == two["lookups"] == 4
    assert one["keys"] == two["keys"]


def test_levels_decide_which_states_are_kept(open_shop: OpenShop) -> None:
    """complete: every transaction's state has its arrival. strong: the ends of batches, and nothing between."""
    shop = open_shop()
    shop.view("every", consistency="complete")
    shop.view("ends", consistency="strong")
    shop.catch_up()
    before = shop.state("ends")
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.write("sales", "DELETE FROM orders WHERE id = 10")
    shop.catch_up()
    rows = [[row[0] for row in shop.state("every", AsOf(arrival=number)).rows()] for number in (1, 2)]
    assert rows == [[10, 11, 12, 20], [11, 12, 20]]
    assert shop.state("ends", AsOf(arrival=1)) == before
    assert shop.state("ends", AsOf(arrival=2)) == shop.state("every")
    by_position = AsOf(positions=shop.warehouse.store("every").positions())
    assert shop.state("every", by_position) == shop.state("ends", by_position) == shop.state("every")


def test_views_of_a_group_are_always_at_one_vector(open_shop: OpenShop) -> None:
    """Every version of one has its twin in the other, at the same positions, whatever was written meanwhile."""
    shop = open_shop()
    shop.view("lines", LINES, consistency="complete", group="g")
    cities = "SELECT c.city, o.id AS oid FROM {customer} c JOIN {orders} o ON o.customer = c.id"
    shop.view("cities", cities, consistency="complete", group="g")
    shop.catch_up()
    shop.warehouse.start()
    for number in range(20, 24):
        before = shop.warehouse.store("cities").head.version
        shop.write("sales", f"INSERT INTO orders VALUES ({number}, 1, 101, 2)")
        shop.write("crm", f"UPDATE customer SET name = 'n{number}' WHERE id = 1")
        shop.write("stock", f"UPDATE product SET price = {number}")
        wait_until(lambda before=before: shop.warehouse.store("cities").head.version > before)  # type: ignore[misc]
    shop.warehouse.stop()
    shop.catch_up()
    vectors = [_vectors(shop, name) for name in ("lines", "cities")]
    assert vectors[0] == vectors[1]
    assert len(vectors[0]) > 2
    assert shop.audit("lines").clean
    assert shop.audit("cities").clean


def test_a_group_refuses_who_shows_states_of_its_own(open_shop: OpenShop) -> None:
    """With the strategies that can be in one."""
    shop = open_shop()
    shop.view("lines", LINES, strategy="posse", group="g")
    with pytest.raises(CannotMaintain, match=r"in group 'g', but its strategy posse .* use one of sweep, pvm, pvm-cc,"):
        shop.catch_up()


def _vectors(shop: Shop, name: str) -> dict[int, dict[str, object]]:
    """By the transaction that brought it; of a group all tables have the same numbers."""
    records = shop.warehouse.store(name).history()
    return {record.transaction: dict(record.positions) for record in records if record.kind == APPEND}
