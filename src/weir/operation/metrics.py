"""The status as Prometheus metrics, over HTTP on a loopback port: ``/metrics``, and ``/status`` as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from weir.algebra.errors import WeirError

Status = Callable[[], dict[str, Any]]
_VIEW = {  # field -> (metric, kind, help)
    "transactions": ("weir_view_transactions_total", "counter", "Transactions committed to the view's table."),
    "queue": ("weir_view_queue", "gauge", "Transactions received and not committed yet."),
    "commits": ("weir_view_commits_total", "counter", "Delta versions written."),
    "lag": ("weir_view_lag_seconds", "gauge", "Seconds since all that was visible at its sources was committed."),
    "last_commit": ("weir_view_last_commit_timestamp_seconds", "gauge", "When the last version was written."),
    "arrival": ("weir_view_arrival", "gauge", "The view's last arrival number."),
}
_SOURCE = {
    "transactions": ("weir_source_transactions_total", "counter", "Transactions delivered by the source."),
    "lag": ("weir_source_lag_seconds", "gauge", "The largest lag of its views."),
}
_ASKED = ("lookups", "keys", "rows", "bytes")


def exposition(status: dict[str, Any]) -> str:
    """In Prometheus' text format.

    >>> print(exposition({"running": True, "rounds": 3, "views": [], "sources": [], "asked": {}}).splitlines()[2])
    weir_up 1
    """
    return "\n".join(_lines(status)) + "\n"


def _lines(status: dict[str, Any]) -> Iterator[str]:
    yield from _metric("weir_up", "gauge", "Whether the views are being maintained.", [({}, int(status["running"]))])
    yield from _metric("weir_rounds_total", "counter", "Rounds made.", [({}, status.get("rounds", 0))])
    for entries, label, known in ((status["views"], "view", _VIEW), (status["sources"], "source", _SOURCE)):
        for field, (name, kind, help_) in known.items():
            values = [({label: each["name"]}, each[field]) for each in entries if each.get(field) is not None]
            yield from _metric(name, kind, help_, values)
    running = [({"view": view["name"]}, int(view["state"] == "running")) for view in status["views"]]
    yield from _metric("weir_view_up", "gauge", "Whether the view is being maintained.", running)
    reachable = [({"source": source["name"]}, int(source["reachable"])) for source in status["sources"]]
    yield from _metric("weir_source_up", "gauge", "Whether the source can be reached.", reachable)
    for what in _ASKED:
        count = status.get("asked", {}).get(what, 0)
        yield from _metric(f"weir_asked_{what}_total", "counter", f"Asked of the sources: {what}.", [({}, count)])


def _metric(name: str, kind: str, help_: str, values: list[tuple[dict[str, str], Any]]) -> Iterator[str]:
    if values:
        yield from (f"# HELP {name} {help_}", f"# TYPE {name} {kind}")
    for labels, value in values:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """Serves a status while it is open."""

    def __init__(self, port: int, status: Status) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages: dict[str, Callable[[], tuple[str, str]]] = {
                    "/metrics": lambda: ("text/plain; version=0.0.4", exposition(status())),
                    "/status": lambda: ("application/json", json.dumps(status(), default=str)),
                }
                page = pages.get(self.path)
                kind, text = page() if page is not None else ("text/plain", "try /metrics or /status\n")
                self.send_response(200 if page is not None else 404)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing: a scrape every few seconds is no news."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as problem:
            raise WeirError(
                f"run.metrics_port = {port} cannot be opened: {problem.strerror}; choose another port, or 0 for none"
            ) from None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="weir-metrics", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
