"""What others name (netdevs, firmware, a tenant's node_desc) breaks neither metrics, page nor log."""

import io
import json
import logging
from html.parser import HTMLParser
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.config import CheckConfig, ChecksConfig, Config, InfinibandConfig, NicConfig, PathsConfig
from exporter.exposition import Exposition
from exporter.model import Role
from exporter.page import Page, node_json
from exporter.polled import polled_once
from tests.trees import HEALTHY, plant, put

HOSTILE = [
    '"} 1\neastwest_node_health{status="ok"} 1\n#',
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "back\\slash\\n\\",
    "{{ 7777 * 7777 }}{% raw %}",
    "\x1b[31mred\x07\r\n\x00end",
    "\u202eright to left\u2028line",
    "a" * 5000,
]


class Tags(HTMLParser):
    """Every tag and its attributes' names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        self.found.add((tag, tuple(name for name, _ in attrs)))


def tree(root: Path, bad: str) -> Path:
    """Two ports; of the second everything is hostile that a device, a driver or another user can name."""
    name = bad.replace("/", "|").replace("\0", "")[:60]
    files = {**HEALTHY, "board_id": bad, "hca_type": bad, "fw_ver": bad, "node_guid": bad, "node_desc": bad}
    files |= {"ports/1/gid_attrs/ndevs/0": name[:15], "ports/1/link_layer": bad, "ports/1/counters/port_xmit_wait": bad}
    files |= {f"ports/1/hw_counters/{name}": "1", "ports/1/hw_counters/lifespan": bad}
    plant(root, {"mlx5_0": HEALTHY, name: files})
    put(root / f"class/net/{name[:15]}/speed", bad)
    return root


def config(root: Path, bad: str) -> Config:
    quiet = CheckConfig(enabled=False)
    checks = ChecksConfig(infiniband=InfinibandConfig(vendor_counters=("*",)), host=quiet)
    nics = (NicConfig(match="*", role=Role.COMPUTE, leaf=bad[:100], cage=bad[:100]),)
    return Config(paths=PathsConfig(sysfs=root, proc=root / "proc", state=root / "state"), checks=checks, nics=nics)


@pytest.mark.parametrize("bad", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_that_others_name_is_more_than_text(bad: str, tmp_path: Path) -> None:
    node = polled_once(config(tree(tmp_path, bad), bad), None)
    snapshot = node.board.snapshot()
    clean = polled_once(config(tree(tmp_path / "clean", "plain"), "plain"), None).board.snapshot()

    for openmetrics, parse in ((False, parse_text), (True, parse_openmetrics)):
        text = Exposition(bad, bad, process=False).render(snapshot, openmetrics).decode()
        plain = Exposition("n", "r", process=False).render(clean, openmetrics).decode()
        samples = [sample for family in parse(text) for sample in family.samples]
        series = {(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples}
        assert len(series) == len(samples)  # each once
        assert {name for name, _ in series} == {s.name for family in parse(plain) for s in family.samples}
        assert sum(name == "eastwest_port_up" for name, _ in series) == 2
        assert {line[0] for line in text.split("\n") if line} <= {"#", "e"}

    page = Page(bad).render(snapshot).decode()
    assert Tags(page).found <= Tags(Page("n").render(clean).decode()).found
    assert "60481729" not in page.replace("7777 * 7777", "") or "{{" not in bad
    json.loads(node_json(snapshot, bad, {"rack": bad}))


@pytest.mark.parametrize("bad", [HOSTILE[0], HOSTILE[5]], ids=["forged", "control"])
def test_a_line_of_the_log_is_one_event(bad: str, tmp_path: Path) -> None:
    from exporter.logs import set_up  # noqa: PLC0415 - it replaces the root logger's handlers, here and below

    before = logging.getLogger().handlers[:]
    stream = io.StringIO()
    try:
        set_up("info", "text")
        logging.getLogger().handlers[0].setStream(stream)  # type: ignore[attr-defined]  # a StreamHandler
        polled_once(config(tree(tmp_path, bad), bad), None)
    finally:
        logging.getLogger().handlers[:] = before
        logging.captureWarnings(capture=False)
    lines = stream.getvalue().splitlines()
    assert lines  # the counter that is no number
    assert all(line.startswith(("INFO ", "WARNING ", "    ")) for line in lines)
    assert not any(character in stream.getvalue() for character in "\x1b\x07\x00\r")
