"""Credentials come from references and show themselves nowhere."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weir.algebra.errors import WeirError
from weir.sources.secrets import STARS, Secret, mask, read_secret

PLAIN = "swordfish-42"


def test_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``env:NAME`` reads the variable."""
    monkeypatch.setenv("WEIR_TEST_PASSWORD", PLAIN)
    assert read_secret("env:WEIR_TEST_PASSWORD", "sources.shop.password").reveal() == PLAIN


def test_from_file_without_the_line_end(tmp_path: Path) -> None:
    """``file:PATH`` reads the file; blanks belong to the credential, one line end does not."""
    (tmp_path / "password").write_text(f" {PLAIN} \n")
    assert read_secret(f"file:{tmp_path / 'password'}", "sources.shop.password").reveal() == f" {PLAIN} "


def test_a_plain_password_is_refused_without_repeating_it() -> None:
    """The error names the place and the way out, not the password."""
    with pytest.raises(WeirError, match=r"sources\.shop\.password.*env:NAME") as caught:
        read_secret(PLAIN, "sources.shop.password")
    assert PLAIN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("reference", ["env:WEIR_TEST_ABSENT", "file:absent-file", "env:", "file:", "", "vault:x"])
def test_what_cannot_be_read_names_the_place(reference: str) -> None:
    """A missing variable or file, or an unknown kind of reference, is one clear error."""
    with pytest.raises(WeirError, match=r"sources\.shop\.password"):
        read_secret(reference, "sources.shop.password")


def test_empty_files_and_bytes_are_refused(tmp_path: Path) -> None:
    """An empty or unreadable credential is no credential."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, words in (("empty", "empty"), ("bytes", "UTF-8")):
        with pytest.raises(WeirError, match=words):
            read_secret(f"file:{tmp_path / name}", "here")


def test_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """No way of printing shows it: str, repr, format, containers, logs, error messages."""
    secret = Secret(PLAIN)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("weir").warning("connecting with %s, %r, %s", secret, secret, {"password": secret})
    printed = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", str([secret]), caplog.text]
    printed.append(str(ValueError("no", secret)))
    assert not any(PLAIN in text for text in printed)
    assert all(STARS in text for text in printed)


def test_equal_and_picklable() -> None:
    """It can be compared, and sent to a task that must connect."""
    assert pickle.loads(pickle.dumps(Secret(PLAIN))) == Secret(PLAIN) == copy.copy(Secret(PLAIN))
    assert Secret(PLAIN) != Secret("other")
    assert len({Secret(PLAIN), Secret(PLAIN)}) == 1


def test_an_overlapping_secret_leaves_no_rest() -> None:
    """A password that contains another one is masked whole."""
    assert mask("key=abcdef", [Secret("abc"), Secret("abcdef")]) == f"key={STARS}"


@given(st.text(min_size=4), st.text(), st.text())
def test_mask_leaves_none(value: str, before: str, after: str) -> None:
    """Whatever the credential and the text around it, the credential is not in what comes out, unless stars make it
    up.
    """
    assume(not set(value) & set(STARS))
    assert value not in mask(before + value + after, [Secret(value)])
