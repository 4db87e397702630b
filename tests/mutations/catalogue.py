"""All planted bugs."""

from __future__ import annotations

from tests.mutations import partitions, rings, single_source, strobes, sweeps
from tests.mutations.mutation import Mutation

MUTATIONS: dict[str, Mutation] = {
    mutation.name: mutation
    for module in (single_source, strobes, sweeps, partitions, rings)
    for mutation in module.MUTATIONS
}
