"""Who is to blame comes back from a task as it was: type, source and words."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.sources.source import LoadAgain, SchemaChanged, SourceError
from weir.sweeping.failures import SourceFailed, Unforeseen, asking, explained, writing_letters

PROBLEMS = {
    "a source whose log is gone": (LoadAgain("crm: the slot is gone\nsecond line: «ü»"), "crm"),
    "a source with another table": (SchemaChanged("crm: column 'a' is no longer int"), "crm"),
    "a source that is down": (SourceError("sales: connection refused, says crm's neighbour"), "sales"),
    "the work itself": (WeirError("an expression failed; source crm has nothing to do with it"), ""),
}


def caught(problem: Exception, source: str) -> Exception:
    """As it leaves the task."""
    try:
        with writing_letters():
            if not source:
                raise problem
            with asking(source):
                raise problem
    except Exception as failed:
        return failed


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_failure_is_told_by_type(name: str) -> None:
    """Wherever in Spark's words the letter stands; a source's name in the text decides nothing."""
    problem, source = PROBLEMS[name]
    told = explained(RuntimeError(f"Job aborted: crm\n\tat java.lang.X {caught(problem, source)} ... 12 more"), "v")
    if source:
        assert isinstance(told, SourceFailed)
        assert (told.source, type(told.problem), str(told.problem)) == (source, type(problem), str(problem))
    else:
        assert not isinstance(told, SourceFailed)
        assert str(told) == str(problem)


def test_whatever_else_fails_names_what_was_done() -> None:
    """A bug in a task is no source's fault, nor a known trouble of the view; one line says what it was."""
    told = explained(RuntimeError(str(caught(MemoryError("no more"), ""))), "lines")
    assert (type(told), str(told)) == (Unforeseen, "lines: MemoryError: no more")
    lost = explained(RuntimeError("\n  Executor lost\nmore"), "lines")
    assert (type(lost), str(lost)) == (Unforeseen, "lines: Executor lost")


def test_the_source_that_was_asked_first_is_to_blame() -> None:
    """Not one around it."""
    with pytest.raises(SourceFailed) as failed, asking("outer"), asking("inner"):
        raise SourceError("gone")
    assert failed.value.source == "inner"


def _failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with writing_letters(), asking("crm"):
        yield from batches
        raise LoadAgain("crm: the slot is gone")


@pytest.mark.spark
def test_through_spark(spark: SparkSession) -> None:
    """A real task's failure, through a real job."""
    with pytest.raises(Exception) as failed:  # noqa: PT011  # Spark's own, classic and Connect differently
        spark.range(3).mapInArrow(_failing, "id bigint").collect()
    told = explained(failed.value, "v")
    assert isinstance(told, SourceFailed)
    assert (told.source, type(told.problem), str(told)) == ("crm", LoadAgain, "crm: the slot is gone")
