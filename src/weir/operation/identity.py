"""A warehouse's own mark: what it owns at the sources (a replication slot, a log that is trimmed) is known by it.

The mark is made once, at random, and kept beside the tables, with the place where they lie. A warehouse that is moved
keeps its mark. One that is copied must not: both would read the same logs, and each would lose what the other has
given up. So the mark's place is compared with the present one: where the mark is still there as well, this is the copy,
and gets a mark of its own.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Mapping

import pyarrow as pa

from weir.operation.locking import FOLDER
from weir.warehouse.errors import StoreError
from weir.warehouse.place import Place

FILE = f"{FOLDER}/identity.json"
log = logging.getLogger("weir")


def owner_of(path: str, storage: Mapping[str, str]) -> str:
    """Mark and place of the warehouse, as they are told to sources; empty where it has none yet, or a copied one."""
    place = Place.of(path, storage or None)
    found = _read(place)
    return _owner(found["id"], place) if found and not _is_copy(found, place) else ""


def take_identity(path: str, storage: Mapping[str, str]) -> str:
    """The same for whoever runs the warehouse: a mark is made where there is none."""
    place = Place.of(path, storage or None)
    found = _read(place)
    if found and _is_copy(found, place):
        log.warning("this warehouse is a copy of %s: it reads change logs of its own, so load it again", found["place"])
        found = None
    mark = found["id"] if found else secrets.token_hex(6)
    if found is None or found["place"] != place.uri:
        _write(place, {"id": mark, "place": place.uri})
    return _owner(mark, place)


def _owner(mark: str, place: Place) -> str:
    return f"{mark} {place.uri}"


def _is_copy(found: Mapping[str, str], place: Place) -> bool:
    """Whether the warehouse that the mark was made for is another one, and still there."""
    before = Place.of(found["place"], place.options)
    if before.uri == place.uri:
        return False
    if before.is_local and place.is_local and os.path.exists(before.uri) and os.path.samefile(before.uri, place.uri):
        return False
    other = _read(before)
    return other is not None and other["id"] == found["id"]


def _read(place: Place) -> dict[str, str] | None:
    try:
        found: dict[str, str] = json.loads(place.read_bytes(FILE))
    except (OSError, ValueError, StoreError, pa.ArrowException):
        return None
    return found if {"id", "place"} <= found.keys() else None


def _write(place: Place, content: Mapping[str, str]) -> None:
    def write() -> None:
        if place.is_local:
            os.makedirs(os.path.join(place.uri, FOLDER), exist_ok=True)
        with place.files.open_output_stream(FILE) as stream:
            stream.write(json.dumps(dict(content)).encode())

    place.writing(write)
