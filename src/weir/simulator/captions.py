"""What a drawing of a run says, in words: the same in the terminal and in the SVG."""

from __future__ import annotations

from dataclasses import dataclass

from weir.algebra.memory import MemoryBag
from weir.simulator.counters import Counters
from weir.simulator.run import FinishedRun
from weir.simulator.trace import ASKED, COMMITTED, DELIVERED, READ, Event

PLAIN, DIM, RIGHT, WRONG = "plain", "dim", "right", "wrong"
NOWHERE = "no source state looks like this"
MARKS = {RIGHT: "✓", WRONG: "✗"}
_PLACES = 40  # characters for the places of a state; the first is always shown
_ROWS = 40  # characters of a table's content beyond which it is not drawn


@dataclass(frozen=True)
class Remark:
    """A text with its tone."""

    text: str
    tone: str = PLAIN
    label: str = ""


def caption(event: Event) -> str:
    """One event in a few words."""
    if event.state is not None:
        reader = "a reader sees " if event.kind == READ else ""
        return f"{reader}state {event.state}: {braced(event.view)}"
    if event.kind == DELIVERED:
        return f"{event.name} arrives"
    return f"{'asks ' if event.kind == ASKED else ''}{event.name}: {event.text}"


def contents(event: Event) -> list[str]:
    """The changed tables after a transaction, those that are short enough to be drawn."""
    texts = [f"{relation.table} = {braced(bag)}" for relation, bag in event.tables.items()]
    return [text for text in texts if len(text) <= _ROWS]


def standing(run: FinishedRun, event: Event) -> Remark:
    """Where the view state of an event stands: the source states it is the view of, or nowhere."""
    assert event.state is not None
    first, *others = run.places(event.state) or ("",)
    if not first:
        return Remark(NOWHERE, WRONG)
    while others and len(" or ".join([first, others[0]])) <= _PLACES:
        first = f"{first} or {others.pop(0)}"
    return Remark(f"{first} or {len(others)} more" if others else first, RIGHT)


def beginning(run: FinishedRun) -> Event:
    """The view before anything happened, as if it had been committed."""
    return Event(COMMITTED, view=run.states[0], state=0)


def title(run: FinishedRun) -> str:
    return f"{run.scenario.title} · {run.algorithm.facts.name}"


def summary(run: FinishedRun) -> list[Remark]:
    """What came of it: the level, the view as it is and as it should be, the costs."""
    converged = run.final == run.expected
    remarks = [Remark(run.level, RIGHT if converged else WRONG, "level held")]
    shortfall = run.shortfall()
    if shortfall:
        name, why = shortfall
        remarks.append(Remark(f"{name}: {why}", PLAIN, "but not"))
    remarks.append(Remark(braced(run.expected), PLAIN, "true view"))
    remarks.append(Remark(braced(run.final), RIGHT if converged else WRONG, "final view"))
    remarks.append(Remark(cost(run.counters), PLAIN, "cost"))
    remarks.append(Remark("; ".join(map(str, run.schedule)), DIM, "schedule"))
    return remarks


def cost(counters: Counters) -> str:
    """The counters in one sentence."""
    messages = f"{_many(counters.messages, 'message')} ({_many(counters.questions, 'question')})"
    shipped = f"{_many(counters.question_rows, 'row')} sent along"
    answered = f"{_many(counters.answer_rows, 'row')} ({_many(counters.answer_bytes, 'byte')}) answered"
    reads = f"{_many(counters.indexed_reads, 'tuple')} read with indexes, {counters.scanned_reads} without"
    return f"{messages}; {shipped}, {answered}; {reads}; {_many(counters.commits, 'commit')}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def braced(bag: MemoryBag | None) -> str:
    return f"{{{'' if bag is None else bag}}}"


def shorten(text: str, width: int) -> str:
    """At most ``width`` characters.

    >>> shorten("warehouse", 6)
    'wareh…'
    """
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
