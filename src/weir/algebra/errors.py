"""Errors a user can mend. Each names the thing, the place and the way out; the command line exits with 2 on them."""

from __future__ import annotations

from typing import ClassVar


class WeirError(Exception):
    """Base of every error that wrong use or wrong configuration can cause."""

    exit_code: ClassVar[int] = 2


class TypeMismatch(WeirError):
    """A value or an expression does not fit the type it is used at."""


class EvaluationError(WeirError):
    """An expression failed on a row, as it would fail in Spark (overflow, division by zero, a bad cast)."""


class UnsupportedExpression(WeirError):
    """An expression that only Spark can evaluate was met by the in-memory evaluator."""


class ViewError(WeirError):
    """A view definition is wrong or outside what Weir maintains.

    ``text`` is the whole definition and ``start``/``end`` the offending part (0-based, end exclusive), so that the
    message can point at it.
    """

    def __init__(self, problem: str, way_out: str = "", text: str = "", start: int = 0, end: int = 0) -> None:
        self.problem = problem
        self.way_out = way_out
        self.text = text
        self.start = start
        self.end = end
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [self.problem]
        if self.text and self.end > self.start:
            lines += self._pointer()
        if self.way_out:
            lines.append(self.way_out)
        return "\n".join(lines)

    def _pointer(self) -> list[str]:
        """The line of the definition that holds the construct, with carets under it."""
        number = self.text.count("\n", 0, self.start) + 1
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : len(self.text) if line_end < 0 else line_end]
        column = self.start - line_start
        width = max(1, min(self.end - self.start, len(line) - column))
        return [f"  line {number}: {line}", " " * (len(f"  line {number}: ") + column) + "^" * width]
