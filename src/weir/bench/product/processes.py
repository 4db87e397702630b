"""What Linux tells of a process: the fields of its status."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def field(pid: int, name: str) -> str:
    """One field; empty when the process is gone, or has none of that name."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")


def size(pid: int, name: str) -> int:
    """A field that is a size, in bytes; 0 when there is none."""
    return int((field(pid, name) or "0").removesuffix(" kB")) * 1024


def parents() -> dict[int, str]:
    """Every process and its parent, empty where it has just gone."""
    return {int(entry.name): field(int(entry.name), "PPid") for entry in PROC.glob("[0-9]*")}
