"""Credentials: named by a reference, read when needed, and shown nowhere.

Configuration holds ``env:NAME`` or ``file:PATH``, never the credential itself. What is read becomes a ``Secret``,
which prints as stars; ``mask`` takes credentials out of text that came from elsewhere, such as a driver's error
message.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import final
from urllib.parse import quote, quote_plus

from weir.algebra.errors import WeirError

STARS = "***"


@final
class Secret:
    """A credential that does not show itself; ``reveal`` is for the driver that needs it.

    >>> password = Secret("swordfish")
    >>> print(password, repr(password), f"{password:>5}", [password])
    *** Secret(***) *** [Secret(***)]
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({STARS})"

    def __str__(self) -> str:
        return STARS

    def __format__(self, spec: str) -> str:
        return STARS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


def read_secret(reference: str, place: str) -> Secret:
    """The credential that ``env:NAME`` or ``file:PATH`` refers to; ``place`` says where in the configuration it
    stands.
    """
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        return _from_environment(name, place)
    if kind == "file" and name:
        return _from_file(name, place)
    raise WeirError(
        f"{place}: a credential must not stand in the configuration itself; write 'env:NAME' and set that environment "
        "variable, or 'file:PATH' and put it into a file that only this account can read"
    )


def _from_environment(name: str, place: str) -> Secret:
    value = os.environ.get(name, "")
    if not value:
        raise WeirError(f"{place}: the environment variable {name} is not set or empty; set it before starting weir")
    return Secret(value)


def _from_file(name: str, place: str) -> Secret:
    """The file's content without the line end that editors put behind it."""
    try:
        value = Path(name).expanduser().read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise WeirError(f"{place}: cannot read the credential from the file {name}: {reason}") from None
    if not value:
        raise WeirError(f"{place}: the file {name} is empty; put the credential into it")
    return Secret(value)


def mask(text: str, secrets: Iterable[Secret]) -> str:
    """The text with every credential replaced by stars, also where it stands escaped as in a URL or a Python literal.

    >>> mask("postgres://weir:p%40ss@db, not p@ss", [Secret("p@ss")])
    'postgres://weir:***@db, not ***'
    """
    forms = {form for secret in secrets for form in _forms(secret.reveal()) if form}
    for form in sorted(forms, key=len, reverse=True):  # a long one first, lest a part of it remain
        text = text.replace(form, STARS)
    return text


def _forms(value: str) -> tuple[str, ...]:
    """As it is, as in a URL, as a Python literal and as an SQL one."""
    urls = (form(value, safe=safe, errors="replace") for form in (quote, quote_plus) for safe in ("", "/"))
    return value, *urls, repr(value)[1:-1], value.replace("'", "''")
