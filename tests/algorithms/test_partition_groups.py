"""Groups: F_Parti by hand, equal groups along the joins, names, options that make no sense."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.algorithms.partition_worlds import CHAIN_3, CHAIN_4, CROSS, SELF_JOIN, TWO_TERMS, scenario
from weir.algebra.errors import WeirError
from weir.algorithms.base import NeedNotMet
from weir.algorithms.equal_partition import EqualPartition
from weir.algorithms.frequency_partition import FrequencyPartition, f_parti
from weir.algorithms.keyed_partition import KeyedPartition
from weir.algorithms.partitioning import Groups, group_named
from weir.algorithms.regrouping import pieces_of

STAR = "SELECT r2.B FROM y.r2 JOIN x.r1 ON r1.B = r2.B JOIN z.r3 ON r3.C = r2.C JOIN z.r4 ON r4.D = r2.C"


def names(groups: Groups) -> list[str]:
    return [group.name for group in groups]


@pytest.mark.parametrize(
    ("frequencies", "groups", "expected"),
    [
        # M = floor(10 / 2) = 5: b exceeds it alone, the rest sums up to 4 and ends the procedure
        ({"a": 1, "b": 6, "c": 2, "d": 1}, 2, ["b", "cad"]),
        # all equal, M = floor(6 / 3) = 2: a group is full when it holds 3, so there are two groups and not three
        (dict.fromkeys("abcdef", 1), 3, ["abc", "def"]),
        # all equal and as many groups as tables: M = 1, two tables each
        (dict.fromkeys("abcd", 1), 4, ["ab", "cd"]),
        # one hot table: M = floor(103 / 3) = 34: it is alone, the cold ones share one group
        ({"a": 1, "b": 1, "c": 100, "d": 1}, 3, ["c", "abd"]),
        # ties keep their order: M = floor(12 / 2) = 6, a + b = 8 > 6, then c + d
        ({"a": 4, "b": 4, "c": 2, "d": 2}, 2, ["ab", "cd"]),
        # the sum must EXCEED M: 5 + 5 = 10 = M is not enough
        ({"a": 5, "b": 5, "c": 5, "d": 5}, 2, ["abc", "d"]),
        # three groups of falling heat: M = floor(21 / 3) = 7; 8 | 5 + 4 | 2 + 1 + 1
        ({"a": 1, "b": 2, "c": 4, "d": 8, "e": 5, "f": 1}, 3, ["d", "ec", "baf"]),
        # tables that never change end up in the last group
        ({"a": 0, "b": 3, "c": 0}, 3, ["b", "ac"]),
        ({"a": 2, "b": 1}, 1, ["ab"]),
    ],
)
def test_f_parti_by_hand(frequencies: Mapping[str, int], groups: int, expected: list[str]) -> None:
    """F_Parti fills groups in descending order of frequency until the sum exceeds floor(sum / K)."""
    assert ["".join(part) for part in f_parti(list(frequencies.items()), groups)] == expected


def test_f_parti_obeys_the_papers_lemma() -> None:
    """Lemma 1: group k is not larger than group k + 1, but for the last."""
    counts = [(at, (at * 7919) % 23 + 1) for at in range(40)]
    for groups in range(1, 20):
        sizes = [len(part) for part in f_parti(counts, groups)]
        assert sizes[:-1] == sorted(sizes[:-1])
        assert len(sizes) <= groups


def test_equal_groups_follow_the_joins() -> None:
    """Groups of p tables in a row; one that no table left is joined to is closed early, so none is a cross product."""
    assert names(EqualPartition.groups_for(scenario(CHAIN_4, {}).view)) == ["0:0+1", "0:2+3"]
    assert names(EqualPartition.groups_for(scenario(CHAIN_3, {}).view)) == ["0:0+1", "0:2"]
    assert names(EqualPartition.groups_for(scenario(CHAIN_4, {}).view, size=3)) == ["0:0+1+2", "0:3"]
    assert names(EqualPartition.groups_for(scenario(STAR, {}).view)) == ["0:0+1", "0:2", "0:3"]
    assert names(EqualPartition.groups_for(scenario(CROSS, {}).view)) == ["0:0+2", "0:1"]
    assert names(EqualPartition.groups_for(scenario(TWO_TERMS, {}).view)) == ["0:0+1", "0:2", "1:0+1", "1:2"]


def test_frequency_groups_of_tables_that_are_not_joined_are_split() -> None:
    """The hot middle of a chain leaves its two ends to one group; split, they are two, unless told otherwise."""
    view = scenario(CHAIN_3, {}).view
    hot = {"y.r2": 9, "x.r1": 1, "z.r3": 1}
    assert names(FrequencyPartition.groups_for(view, frequencies=hot)) == ["0:1", "0:0", "0:2"]
    assert names(FrequencyPartition.groups_for(view, frequencies=hot, split_unjoined=False)) == ["0:1", "0:0+2"]


def test_a_table_counts_in_every_slot_it_fills() -> None:
    """In a self-join both slots of the hot table come first."""
    view = scenario(SELF_JOIN, {}).view
    groups = FrequencyPartition.groups_for(view, groups=3, frequencies={"y.r2": 5, "x.r1": 1})
    assert names(groups) == ["0:0", "0:2", "0:1"]


def test_auxiliary_views_hold_what_others_need() -> None:
    """Columns of the select list and of conditions that leave the group; those inside are applied and forgotten."""
    first, second = EqualPartition.groups_for(scenario(CHAIN_4, {}, keyed=False).view)
    assert first.view.columns == ("r1.A", "r2.C")  # B only joins inside
    assert second.view.columns == ("r3.C", "r4.E")  # D only joins inside
    assert first.view.terms[0].selections == (None, first.term.selections[1])
    assert first.view.terms[0].rest == ()  # A <= E + 1 spans both groups


def test_keyed_groups_hold_the_keys_too() -> None:
    """The hot group carries the key of each of its tables; a table without a key makes no group special."""
    view = scenario(CHAIN_4, {}).view
    (hot, cold) = KeyedPartition.groups_for(view, groups=2, frequencies={"x.r1": 3, "y.r2": 3, "z.r3": 1, "z.r4": 1})
    assert (hot.name, cold.name) == ("0:0+1k", "0:2+3")
    assert hot.view.columns == ("r1.A", "r1.B", "r2.B", "r2.C")
    assert names(KeyedPartition.groups_for(scenario(CHAIN_4, {}, keyed=False).view))[0] == "0:0+1+2"


def test_new_groups_use_what_is_at_hand() -> None:
    """A union of groups asks nobody; a part of a group asks for its tables; a keyed one cannot use one without keys."""
    view = scenario(CHAIN_4, {}).view
    old = tuple((group_named(view, name), None) for name in ("0:0+1", "0:2", "0:3"))
    pieces = {name: pieces_of(group_named(view, name), old) for name in ("0:0+1+2", "0:1+2", "0:0+1k", "0:2+3")}  # type: ignore[arg-type]
    assert {name: piece.remote for name, piece in pieces.items()} == {
        "0:0+1+2": (), "0:1+2": (1,), "0:0+1k": (0, 1), "0:2+3": (),
    }  # fmt: skip


def test_wrong_use_is_refused_with_the_way_out() -> None:
    """Sizes, numbers of groups, frequencies, missing keys and missing auxiliary views: named before anything runs."""
    data = scenario(CHAIN_3, {})
    for kind, options, message in (
        (EqualPartition, {"size": 0}, "groups of 0 tables"),
        (FrequencyPartition, {"groups": 0}, "0 groups"),
        (KeyedPartition, {"groups": 0}, "0 groups"),
        (FrequencyPartition, {"frequencies": {"x.r9": 1}}, "has no such table; it has x.r1, y.r2, z.r3"),
        (FrequencyPartition, {"frequencies": {"x.r1": 0.5}}, "give a count of updates"),
        (FrequencyPartition, {"repartition_after": 0}, "repartition_after = 0"),
        (EqualPartition, {"wrong": 1}, "no option 'wrong'"),
    ):
        with pytest.raises(WeirError, match=message):
            data.begin(kind, **options)
    with pytest.raises(NeedNotMet, match="has a key; declare one"):
        scenario(CHAIN_3, {}, keyed=False).begin(KeyedPartition)
    with pytest.raises(WeirError, match="lacks its auxiliary views"):
        EqualPartition(data.view)
    with pytest.raises(WeirError, match="do not hold every table"):
        EqualPartition(data.view, {})
    with pytest.raises(WeirError, match="is no auxiliary view of v"):
        EqualPartition(data.view, {"r1": data.rows[next(iter(data.rows))]})
