"""What ``weir check`` found: sections of lines, each fine, a warning or an error, with what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

OK, WARNING, ERROR = "ok", "warning", "error"
CONFIGURATION, MACHINE = 2, 1  # exit codes: what the project says or needs at its sources; what this machine lacks


@dataclass(frozen=True)
class Line:
    """One thing that was looked at: how bad it is, what it is, and what to do about it."""

    severity: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Section:
    """One source, one view, or a part of the machine."""

    subject: str
    lines: tuple[Line, ...]
    code: int = CONFIGURATION  # the exit code if a line is an error

    def count(self, severity: str) -> int:
        """Lines of this severity."""
        return sum(line.severity == severity for line in self.lines)


@dataclass(frozen=True)
class Report:
    """All that ``weir check`` has looked at."""

    sections: tuple[Section, ...]

    def count(self, severity: str) -> int:
        """Lines of this severity, in all sections."""
        return sum(section.count(severity) for section in self.sections)

    @property
    def exit_code(self) -> int:
        return max((section.code for section in self.sections if section.count(ERROR)), default=0)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Text with its severity ('' for headings)."""
        for section in self.sections:
            yield "", section.subject
            for line in section.lines:
                first, *more = line.text.splitlines()
                yield line.severity, f"  {line.severity:8} {first}"
                yield from ((line.severity, f"           {rest}") for rest in more)
                if line.remedy:
                    yield line.severity, f"           to mend it: {line.remedy}"
        yield "", self._summary()

    def _summary(self) -> str:
        errors, warnings = self.count(ERROR), self.count(WARNING)
        if not errors:
            return "ready to run" + (f", with {in_plural(warnings, 'warning')}" if warnings else "")
        return f"not ready: {in_plural(errors, 'error')}, {in_plural(warnings, 'warning')}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ready": not self.count(ERROR),
            "errors": self.count(ERROR),
            "warnings": self.count(WARNING),
            "sections": [
                {"subject": section.subject, "lines": [asdict(line) for line in section.lines]}
                for section in self.sections
            ],
        }


def in_plural(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
