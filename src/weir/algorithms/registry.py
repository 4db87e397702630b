"""The registry: name to algorithm, in the order of the papers' table."""

from __future__ import annotations

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.algorithms.base import Algorithm
from weir.algorithms.basic import Basic
from weir.algorithms.c_strobe import CStrobe
from weir.algorithms.c_t_strobe import CTStrobe
from weir.algorithms.copies import Copies
from weir.algorithms.eca import Eca
from weir.algorithms.eca_key import EcaKey
from weir.algorithms.eca_local import EcaLocal
from weir.algorithms.equal_partition import EqualPartition
from weir.algorithms.frequency_partition import FrequencyPartition
from weir.algorithms.g_strobe import GStrobe
from weir.algorithms.keyed_partition import KeyedPartition
from weir.algorithms.lca import Lca
from weir.algorithms.multi_ring import MultiRing
from weir.algorithms.nested_sweep import NestedSweep
from weir.algorithms.parallel_partition import ParallelPartition
from weir.algorithms.posse import Posse
from weir.algorithms.pvm import Pvm
from weir.algorithms.pvm_cc import PvmCc
from weir.algorithms.recompute import Recompute
from weir.algorithms.ring import Ring
from weir.algorithms.star import Star
from weir.algorithms.strobe import Strobe
from weir.algorithms.sweep import Sweep
from weir.algorithms.t_strobe import TStrobe

_CLASSES: tuple[type[Algorithm], ...] = (
    Basic, Recompute, Copies, Eca, EcaKey, EcaLocal, Lca,
    Strobe, TStrobe, GStrobe, CStrobe, CTStrobe,
    Sweep, NestedSweep, Posse,
    Pvm, PvmCc,
    EqualPartition, FrequencyPartition, ParallelPartition, KeyedPartition,
    Ring, Star, MultiRing,
)  # fmt: skip
ALGORITHMS: dict[str, type[Algorithm]] = {cls.facts.name: cls for cls in _CLASSES}


def algorithm(name: str) -> type[Algorithm]:
    """The algorithm of that name; a wrong name is answered with a near one."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = did_you_mean(name, ALGORITHMS, "the algorithms are")
        raise WeirError(f"unknown algorithm '{name}'; {known}") from None
