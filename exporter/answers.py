"""What the daemon answers: each page, from the node as it is shown now."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.config import Config
from exporter.exposition import OPENMETRICS, TEXT, Exposition
from exporter.node import Node
from exporter.page import Page, node_json
from exporter.server import Request, Response, Route, offers
from exporter.verdict import document

if TYPE_CHECKING:
    from exporter.probes.scheduled import ScheduledProbes

BEAT_LIMIT = 10.0
"""Seconds without a turn of the schedule's loop after which /healthz says so."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A node and what renders it; replaced as a whole when the configuration is read again."""

    config: Config
    name: str
    node: Node
    exposition: Exposition
    page: Page
    probes: "ScheduledProbes | None" = None


class Answers:
    """The pages. `shown` gives the node as it is now, `silent` the seconds since the schedule's loop last turned."""

    def __init__(self, shown: Callable[[], Shown], silent: Callable[[], float]) -> None:
        self._shown = shown
        self._silent = silent

    def routes(self) -> Mapping[str, Route]:
        """Every page, by its path."""
        return {
            "/": self._page,
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/api/v1/health": self._health,
            "/api/v1/node": self._node,
            "/api/v1/probes": self._probes,
        }

    def _metrics(self, request: Request) -> Response:
        asked = offers(request.accept)
        openmetrics = asked.get("application/openmetrics-text", 0.0)
        better = openmetrics > 0 and openmetrics >= asked.get("text/plain", 0.0)
        shown = self._shown()
        return Response(shown.exposition.render(shown.node.board.snapshot(), better), OPENMETRICS if better else TEXT)

    def _page(self, _request: Request) -> Response:
        shown = self._shown()
        return Response(shown.page.render(shown.node.board.snapshot()), "text/html; charset=utf-8")

    def _node(self, _request: Request) -> Response:
        shown = self._shown()
        body = node_json(shown.node.board.snapshot(), shown.name, shown.config.node.labels)
        return Response(body, "application/json")

    def _probes(self, _request: Request) -> Response:
        probes = self._shown().probes
        body = probes.document() if probes is not None else b'{"enabled": false, "probes": []}'
        return Response(body, "application/json")

    def _health(self, _request: Request) -> Response:
        shown = self._shown()
        body = json.dumps(document(shown.node.board.snapshot(), shown.name), indent=1)
        return Response(body.encode() + b"\n", "application/json")

    def _healthz(self, _request: Request) -> Response:
        silent = self._silent()
        if silent > BEAT_LIMIT:
            return Response(f"the schedule has not turned for {silent:.0f} s\n".encode(), status=503)
        return Response(b"ok\n")

    def _readyz(self, _request: Request) -> Response:
        waiting = [view.name for view in self._shown().node.board.snapshot().checks if not view.ran]
        if waiting:
            return Response(f"not run yet: {', '.join(waiting)}\n".encode(), status=503)
        return Response(b"ok\n")
