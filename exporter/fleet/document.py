"""The answer of `locate` for machines: one JSON object."""

import json
from dataclasses import asdict
from typing import Any

from exporter.fleet.verdicts import Findings


def document(found: Findings, rows: int, skipped: int) -> str:
    """The JSON text. Losses are ratios; `healthy` counts the (node, rail) that a probe cleared."""
    answer = {
        "links": [asdict(link) for link in found.links],
        "nodes": [_without_evidence(asdict(node)) for node in found.nodes],
        "leaves": [_without_evidence(asdict(leaf)) for leaf in found.leaves],
        "pairs": [_without_evidence(asdict(pair)) for pair in found.pairs],
        "undetermined": [asdict(one) for one in found.undetermined],
        "healthy": found.healthy,
        "input": {"rows": rows, "skipped": skipped},
    }
    return json.dumps(answer, indent=1, allow_nan=False, ensure_ascii=False)


def _without_evidence(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "evidence"}
