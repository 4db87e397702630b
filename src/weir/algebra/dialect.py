"""Spark's SQL as sqlglot reads it for us.

Two dialects. A view's definition is read *as it is written*: sqlglot knows several hundred functions and rewrites many
of them into a general form that can lose something on the way back (the fourth argument of ``instr``, the type of
``unix_date``), so there every call stays under the name that the user gave it. The in-memory evaluator wants to know
the few functions of its core, so it reads with sqlglot's own knowledge.

Both leave out the brackets that sqlglot adds around operands of ``<=>`` and IS: they say how sqlglot groups a text,
not how Spark does. Where the two differ, the evaluator must be able to see it (``weir.algebra.scalar.precedence``).
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

# Calls with a grammar of their own, such as CAST(a AS int) and EXTRACT(year FROM a).
_CALLS_WITH_KEYWORDS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY")


class _WithoutAddedBrackets(SparkParser):
    def _build_predicate(
        self, klass: Any, this: Any, expression: Any, comments: list[str] | None = None, negate: bool = False
    ) -> exp.Expr:
        predicate: exp.Expr = klass(this=this, expression=expression)
        if negate:
            predicate.set("negate", True)
        made: exp.Expr = self.expression(predicate, comments=comments)
        return made


class _Tokenizer(Spark.Tokenizer):
    STRING_ESCAPES: ClassVar = ["\\", "'", '"']  # since Spark 4 a doubled quote is a quote


class SparkAsWritten(Spark):
    """Spark's dialect without sqlglot's knowledge of what functions mean."""

    class Tokenizer(_Tokenizer):
        pass

    class Parser(_WithoutAddedBrackets):
        FUNCTIONS: ClassVar = {"ARRAY": SparkParser.FUNCTIONS["ARRAY"]}  # a type name too, so it needs its builder
        FUNCTION_PARSERS: ClassVar = {
            name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name in _CALLS_WITH_KEYWORDS
        }
        NO_PAREN_FUNCTIONS: ClassVar = {}  # CURRENT_DATE and the like are read as columns; binding tells them apart


class SparkCore(Spark):
    """Spark's dialect with the functions that the in-memory evaluator knows."""

    class Parser(_WithoutAddedBrackets):
        pass
