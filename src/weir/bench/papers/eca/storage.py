"""A little storage engine that answers Example 6's terms from blocks and counts the blocks it reads.

It exists to *measure* the block reads that the ECA paper's section 6.3 estimates, so it does what that section says
and nothing cleverer: no cache from probe to probe or term to term, and no plan across terms. Two scenarios:

- ``with_indexes``: indexes in memory; the rows of a bound slot are followed to the left and to the right along the
  chain of joins, every row probing its neighbour. A clustering index costs the blocks the matching rows lie in,
  another index one block per row. A term with nothing bound reads every relation once and joins in memory.
- ``without_indexes``: three blocks of memory. Three relations are joined block by block by block; two relations
  with two blocks of the outer one in memory at a time; one relation is read through.

Reads that only load an outer loop's blocks are counted apart: the paper's formulas leave them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import NamedTuple

from weir.algebra.bag import Bag
from weir.algebra.types import Row

DiskBlock = list[Row]
JoinedRows = tuple[Row, ...]  # one row per slot of the chain
Signed = list[tuple[Row, int]]


class StorageLayout(NamedTuple):
    """How one relation of the chain is stored: the column it is clustered on, and those that join its neighbours."""

    clustered_on: int
    to_left: int | None  # the column that equals the left neighbour's ``to_right``
    to_right: int | None


CHAIN = (StorageLayout(1, None, 1), StorageLayout(0, 0, 1), StorageLayout(0, 0, None))  # r1 by X, r2 by X, r3 by Y


@dataclass(frozen=True)
class BlockReads:
    """Blocks read in the innermost loop or by a probe, and blocks loaded for the outer loops."""

    inner: int = 0
    outer: int = 0

    def __add__(self, other: BlockReads) -> BlockReads:
        return BlockReads(self.inner + other.inner, self.outer + other.outer)

    @property
    def all(self) -> int:
        return self.inner + self.outer


class StoredRelation:
    """A relation in full blocks, in the order of its clustering column."""

    def __init__(self, bag: Bag, layout: StorageLayout, block_size: int) -> None:
        rows = [row for row, count in bag.items() for _ in range(count)]
        rows.sort(key=lambda row: (row[layout.clustered_on], row))
        self.layout = layout
        self.blocks: list[DiskBlock] = [rows[at : at + block_size] for at in range(0, len(rows), block_size)]
        self._places: dict[tuple[int, object], list[tuple[int, Row]]] = {}  # indexes: (column, value) -> (block, row)
        for number, block in enumerate(self.blocks):
            for row in block:
                for column in {layout.to_left, layout.to_right} - {None}:
                    assert column is not None
                    self._places.setdefault((column, row[column]), []).append((number, row))

    def probe(self, column: int, value: object) -> tuple[DiskBlock, int]:
        """The rows with that value, and the blocks read to fetch them."""
        found = self._places.get((column, value), [])
        clustered = column == self.layout.clustered_on
        return [row for _, row in found], len({number for number, _ in found}) if clustered else len(found)


@dataclass
class SignedTerm:
    """One term to answer: per slot the bound rows with their signs, or None for the stored relation."""

    bound: Sequence[Signed | None]
    sign: int = 1

    @property
    def free(self) -> list[int]:
        return [at for at, rows in enumerate(self.bound) if rows is None]

    def rows(self, slot: int) -> DiskBlock:
        signed = self.bound[slot]
        assert signed is not None
        return [row for row, weight in signed for _ in range(abs(weight))]

    def weight(self, joined: JoinedRows) -> int:
        """The product of the signs: a deleted row makes all it joins with deleted."""
        weight = self.sign
        for row, signed in zip(joined, self.bound, strict=True):
            if signed is not None and next(w for known, w in signed if known == row) < 0:
                weight = -weight
        return weight


@dataclass
class Storage:
    """The three relations of the chain in one state of their source."""

    relations: Sequence[StoredRelation]
    chain: Sequence[StorageLayout] = field(default=CHAIN)

    @classmethod
    def of(cls, bags: Sequence[Bag], block_size: int) -> Storage:
        return cls([StoredRelation(bag, layout, block_size) for bag, layout in zip(bags, CHAIN, strict=True)])

    # -- scenario 1 ---------------------------------------------------------------------------------------------------

    def with_indexes(self, term: SignedTerm) -> tuple[list[JoinedRows], BlockReads]:
        """The joined rows of a term, and the blocks read, when every join column has an index."""
        if len(term.free) == len(self.chain):
            everything = [[row for block in r.blocks for row in block] for r in self.relations]
            return list(self._joined(everything)), BlockReads(sum(len(r.blocks) for r in self.relations))
        seed = next(at for at in range(len(self.chain)) if at not in term.free)
        found, reads = [], 0
        for row in term.rows(seed):
            left, cost_left = self._follow(term, seed, row, -1)
            right, cost_right = self._follow(term, seed, row, +1)
            reads += cost_left + cost_right
            found += [(*before[::-1], row, *after) for before, after in product(left, right)]
        return found, BlockReads(reads)

    def _follow(self, term: SignedTerm, slot: int, row: Row, step: int) -> tuple[list[JoinedRows], int]:
        """All chains of rows from here to one end, outward, and the blocks read for them."""
        neighbour = slot + step
        if not 0 <= neighbour < len(self.chain):
            return [()], 0
        mine, theirs = self._tie(slot, neighbour)
        if term.bound[neighbour] is None:
            partners, reads = self.relations[neighbour].probe(theirs, row[mine])
        else:
            partners, reads = [other for other in term.rows(neighbour) if other[theirs] == row[mine]], 0
        chains: list[JoinedRows] = []
        for partner in partners:
            further, cost = self._follow(term, neighbour, partner, step)
            chains += [(partner, *rest) for rest in further]
            reads += cost
        return chains, reads

    def _tie(self, slot: int, neighbour: int) -> tuple[int, int]:
        here, there = self.chain[slot], self.chain[neighbour]
        mine, theirs = (here.to_right, there.to_left) if neighbour > slot else (here.to_left, there.to_right)
        assert mine is not None
        assert theirs is not None
        return mine, theirs

    # -- scenario 2 ---------------------------------------------------------------------------------------------------

    def without_indexes(self, term: SignedTerm) -> tuple[list[JoinedRows], BlockReads]:
        """The joined rows of a term, and the blocks read, with nested loops in three blocks of memory."""
        *outer, inner = term.free
        buffer = 2 if len(outer) == 1 else 1  # blocks of an outer relation in memory at a time; one is the inner one's
        found: list[JoinedRows] = []
        inner_reads = outer_reads = 0
        for loaded, loads in self._outer_loads(outer, buffer):
            outer_reads += loads
            for block in self.relations[inner].blocks:
                inner_reads += 1
                found += self._joined(self._in_memory(term, {**loaded, inner: block}))
        return found, BlockReads(inner_reads, outer_reads)

    def _outer_loads(self, outer: Sequence[int], buffer: int) -> Iterator[tuple[Mapping[int, DiskBlock], int]]:
        """What is in memory of the outer relations, one filling after the other, and the reads each filling takes."""
        if not outer:
            yield {}, 0
            return
        first, rest = outer[0], outer[1:]
        for blocks in _batches(self.relations[first].blocks, buffer):
            rows, loads = [row for block in blocks for row in block], len(blocks)
            for loaded, further in self._outer_loads(rest, buffer):
                yield {first: rows, **loaded}, loads + further
                loads = 0  # it stays in memory while the inner ones pass

    def _in_memory(self, term: SignedTerm, loaded: Mapping[int, DiskBlock]) -> list[DiskBlock]:
        return [loaded[at] if at in loaded else term.rows(at) for at in range(len(self.chain))]

    # -- joining in memory --------------------------------------------------------------------------------------------

    def _joined(self, pieces: Sequence[DiskBlock]) -> Iterator[JoinedRows]:
        """The chain join of rows that are all in memory."""
        chains: list[JoinedRows] = [(row,) for row in pieces[0]]
        for at in range(1, len(pieces)):
            mine, theirs = self._tie(at - 1, at)
            partners: dict[object, DiskBlock] = {}
            for row in pieces[at]:
                partners.setdefault(row[theirs], []).append(row)
            chains = [(*chain, row) for chain in chains for row in partners.get(chain[-1][mine], ())]
        return iter(chains)


def _batches(blocks: Sequence[DiskBlock], size: int) -> Iterator[list[DiskBlock]]:
    remaining = iter(blocks)
    while batch := list(islice(remaining, size)):
        yield batch
