"""Pictures of the dashboards: `python -m tests.dashboards.pictures FOLDER` (`make pictures`).

The queries run on a real Prometheus over a simulated fleet; what is drawn is drawn by Grafana's UI library in a
headless Chromium (grafana/render), not by Grafana.
"""

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.dashboards.fleet import recent, shown
from tests.dashboards.history import Span, member
from tests.dashboards.server import Prometheus
from tests.dashboards.viewer import Viewer, dashboards

RENDER = Path(__file__).parents[2] / "grafana" / "render"
HOURS = 1
WIDTH = 1400
MEMBERS = (
    *(member("healthy", name=f"gpu-{number:03}") for number in range(1, 7)),
    member("slow-port", name="gpu-007"),
    member("flapping", name="gpu-008"),
    member("symbol-errors", name="gpu-009"),
    member("nvlink-down", name="gpu-010"),
    member("gpu-lost", name="gpu-011"),
    member("pfc-storm", name="gpu-012"),
    member("throttled", name="gpu-013"),
    member("hang", name="gpu-014"),
    member("healthy", name="gpu-015", silent_for=1500),
    member("nvlink-errors", name="gpu-016"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A part of a dashboard: from the top, so many rows of its grid; with these variables chosen."""

    name: str
    dashboard: str
    rows: tuple[int, int]
    chosen: tuple[tuple[str, str], ...] = ()


PICTURES: Sequence[Picture] = (
    Picture("fleet", "eastwest-fleet", (0, 35)),
    Picture("ports", "eastwest-ports", (0, 43)),
    Picture("nvlink", "eastwest-nvlink", (0, 45), (("node", "gpu-010"),)),
    Picture("node", "eastwest-node", (0, 41), (("node", "gpu-008"),)),
)


def main() -> int:
    """Take all pictures; 1 if a panel could not be drawn."""
    logging.disable(logging.CRITICAL)
    out = Path(sys.argv[1])
    wanted = sys.argv[2:]
    span = recent(HOURS * 3600 + 60, step=30)
    with tempfile.TemporaryDirectory(prefix="eastwest-") as folder, shown(Path(folder), MEMBERS, span) as server:
        chosen = [picture for picture in PICTURES if not wanted or picture.name in wanted]
        return max(_take(picture, server, span, out) for picture in chosen)


def _take(picture: Picture, server: Prometheus, span: Span, out: Path) -> int:
    viewer = Viewer(server, span.start, span.end, dict(picture.chosen))
    dashboard = dashboards()[picture.dashboard]
    values, _ = viewer.variables(dashboard)
    first, last = picture.rows
    parts = [
        panel
        for panel in dashboard["panels"]
        if panel["gridPos"]["y"] >= first and panel["gridPos"]["y"] + panel["gridPos"]["h"] <= last
    ]
    context = {"prometheus": server.url, "from": span.start * 1000, "to": span.end * 1000, "variables": values}
    asked = {"dashboard": {**dashboard, "panels": parts}, "titles": None, "width": WIDTH, "context": context}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        command = ["node", "shot.mjs", file.name, str((out / f"{picture.name}.png").absolute())]
        return subprocess.run(command, cwd=RENDER, check=False, timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
