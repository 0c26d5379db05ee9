"""Write the dashboards: `python -m grafana.build` (`make dashboards`)."""

import json
from collections.abc import Mapping
from pathlib import Path

from grafana.colours import Json
from grafana.fleet import fleet
from grafana.node import node
from grafana.nvlink import nvlink
from grafana.ports import ports

FOLDER = Path(__file__).parent / "dashboards"
BUILDERS = (fleet, ports, nvlink, node)


def built() -> Mapping[str, str]:
    """The text of every dashboard, by its file's name."""
    return {f"{made['uid']}.json": text(made) for made in (build() for build in BUILDERS)}


def text(dashboard: Json) -> str:
    """JSON that shows a change as few lines."""
    return json.dumps(dashboard, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all, and remove what is no longer built."""
    files = built()
    for old in FOLDER.glob("*.json"):
        if old.name not in files:
            old.unlink()
    for name, content in files.items():
        (FOLDER / name).write_text(content)


if __name__ == "__main__":
    main()
