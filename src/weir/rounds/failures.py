"""What went wrong, and who is to blame: a source that failed while it was read, or the work itself.

Errors of Spark's tasks come wrapped in Spark's own, classic and Connect differently; ours are found again in their
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from weir.algebra.errors import WeirError
from weir.sources.source import LoadAgain, SchemaChanged

_PYTHON = re.compile(r"(\w+\.)*\w*(Error|Exception): ")  # the last line of a traceback
_STOPPING = {kind.__name__: kind for kind in (LoadAgain, SchemaChanged)}


class SourceFailed(WeirError):
    """A source failed while it was asked."""

    def __init__(self, problem: WeirError, source: str) -> None:
        super().__init__(str(problem))
        self.problem, self.source = problem, source


def explained(problem: Exception, what: str, sources: Iterable[str]) -> WeirError:
    """Any exception as one of ours, in few words; a source's own trouble names the source.

    >>> said = "An exception was thrown:\\nTraceback ...\\nweir.sources.source.SourceError: crm: cannot connect\\n"
    >>> explained(Exception(said), "v", ["crm"]).source
    'crm'
    >>> str(explained(Exception("An exception was thrown:\\nTraceback ...\\nMemoryError: no more\\n"), "v", ["crm"]))
    'v: MemoryError: no more'
    """
    if isinstance(problem, WeirError):
        return problem
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    ours = [line.partition(": ") for line in lines if line.startswith("weir.") and ": " in line]
    if not ours:
        python = [line for line in lines if _PYTHON.match(line)]
        return WeirError(f"{what}: {([*python[-1:], *lines] or [type(problem).__name__])[0]}")
    path, _, said = ours[-1]
    kind = path.rpartition(".")[2]
    guilty = [source for source in sources if re.search(rf"\b{re.escape(source)}\b", said)]
    if path.startswith("weir.sources") and guilty:
        return SourceFailed(_STOPPING.get(kind, WeirError)(said), guilty[0])
    return WeirError(said)
