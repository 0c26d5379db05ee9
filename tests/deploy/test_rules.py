"""Rules and dashboards name only what the code has; every alert has its test and its runbook."""

import re
import shutil
import subprocess
from typing import Any

import pytest

from exporter.catalogue import MODULES, declared
from exporter.model import Severity
from exporter.reasons import REASONS
from tests.deploy import promql
from tests.deploy.files import (
    DEPLOY,
    ROOT,
    RULES,
    RUNBOOK_URL,
    RUNBOOKS,
    Rule,
    alerts,
    dashboard_expressions,
    recorded,
    rules,
    unit_tests,
)

METRICS = {metric.name: tuple(metric.label_names) for _, module in MODULES for metric in declared(module)}
HISTOGRAMS = {
    metric.name: metric.label_names
    for _, module in MODULES
    for metric in declared(module)
    if metric.kind == "histogram"
}
TARGET = {"job", "instance", "node", "rack"}
"""Labels of the scrape, and those that the rules add to findings."""
KINDS = {rule["labels"]["kind"] for rule in rules() if rule.get("record") == "subject:eastwest_finding:kind"}
OURS = {"kind", "scope", "of"}
"""Labels that the recording rules give."""
NOT_ALERTED = {"port_never_up", "counters_saturated", "probe_unverified"}
"""Findings that are for the page only: info by nature."""
expressions = pytest.mark.parametrize(
    ("where", "expression"),
    [*((rule.get("alert", rule.get("record")), rule["expr"]) for rule in rules()), *dashboard_expressions()],
)


def labels_of(metric: str) -> set[str] | None:
    """The labels that a series of this name can have; None for what is recorded."""
    if metric in METRICS:
        return {*METRICS[metric], *TARGET}
    base = re.sub(r"_(bucket|sum|count)$", "", metric)
    return {*HISTOGRAMS[base], *TARGET, "le"} if base in HISTOGRAMS else None


@expressions
def test_metrics_exist(where: str, expression: str) -> None:
    known = recorded()
    missing = {name for name in promql.metrics(expression) if name not in known and labels_of(name) is None}
    assert not missing, where


@pytest.mark.parametrize(
    ("where", "expression"), [(rule.get("alert", rule.get("record")), rule["expr"]) for rule in rules()]
)
def test_labels_exist(where: str, expression: str) -> None:
    every = TARGET | OURS | {label for labels in METRICS.values() for label in labels} | {"le"}
    assert promql.grouping_labels(expression) <= every, where
    for matcher in promql.matchers(expression):
        has = labels_of(matcher.metric)
        assert matcher.label in (every if has is None else has), (where, matcher)


@expressions
def test_reasons_exist(where: str, expression: str) -> None:
    for matcher in promql.matchers(expression):
        if matcher.label == "reason" and "eastwest_finding" in matcher.metric:
            assert set(matcher.alternatives) <= set(REASONS), (where, matcher)
        if matcher.label == "severity" and "eastwest_finding" in matcher.metric:
            assert set(matcher.alternatives) <= {severity.value for severity in Severity}, (where, matcher)
        if matcher.label == "kind":
            assert set(matcher.alternatives) <= KINDS or matcher.operator == "=~", (where, matcher)


def test_every_reason_that_matters_has_its_kind_and_every_kind_its_alert() -> None:
    named = {
        reason: rule["labels"]["kind"]
        for rule in rules()
        if rule.get("record") == "subject:eastwest_finding:kind"
        for matcher in promql.matchers(rule["expr"])
        if matcher.label == "reason"
        for reason in matcher.alternatives
    }
    info = {name for name, reason in REASONS.items() if reason.severity is Severity.INFO}
    assert set(named) == set(REASONS) - info
    assert info == {*NOT_ALERTED, "congestion"}
    alerted = {
        matcher.value
        for rule in alerts()
        for matcher in promql.matchers(rule["expr"])
        if matcher.metric == "subject:eastwest_finding:single" and matcher.label == "kind"
    }
    assert alerted == KINDS


def test_a_kind_that_can_be_critical_pages() -> None:
    """Both alerts of such a kind: without a filter on severity, or with its two halves."""
    for kind in KINDS:
        of_kind = [rule for rule in alerts() if f'single{{kind="{kind}"' in rule["expr"]]
        halves = sorted(re.findall(r"severity(!?=)", rule["expr"]) for rule in of_kind)
        assert halves in ([[]], [["!="], ["="]]), kind
        worst = {
            reason.severity
            for rule in rules()
            if rule.get("record") == "subject:eastwest_finding:kind" and rule["labels"]["kind"] == kind
            for matcher in promql.matchers(rule["expr"])
            for reason in [REASONS[name] for name in matcher.alternatives if name in REASONS]
        }
        pages = any(rule["labels"]["severity"] == "critical" for rule in of_kind)
        assert pages or Severity.CRITICAL not in worst, kind


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_alert_is_written_as_mixins_are(rule: Rule) -> None:
    assert re.fullmatch(r"Eastwest([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert "for" in rule
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["description"].endswith(".")
    assert "{{" not in annotations["summary"], "alerts of one group share their summary"


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_alert_has_its_runbook(rule: Rule) -> None:
    url = rule["annotations"]["runbook_url"]
    assert url.startswith(RUNBOOK_URL)
    text = (RUNBOOKS / url.removeprefix(RUNBOOK_URL)).read_text()
    assert f"`{rule['alert']}`" in text or text.startswith(f"# {rule['alert']}\n")
    for heading in ("What it means", "What to look at", "What it is not evidence of", "How it clears"):
        assert f"## {heading}\n" in text, heading


def test_every_runbook_belongs_to_an_alert_and_is_in_the_table() -> None:
    used = {rule["annotations"]["runbook_url"].removeprefix(RUNBOOK_URL) for rule in alerts()}
    assert used == {path.name for path in RUNBOOKS.glob("*.md")}
    table = (ROOT / "docs/alerts.md").read_text()
    rows = {
        (name, severity.strip(), page)
        for name, severities, page in re.findall(
            r"^\| `(\w+)` \| ([\w, ]+) \| .* \[\w+\]\(runbooks/(\w+\.md)\) \|$", table, re.MULTILINE
        )
        for severity in severities.split(",")
    }
    assert rows == {
        (rule["alert"], rule["labels"]["severity"], rule["annotations"]["runbook_url"].removeprefix(RUNBOOK_URL))
        for rule in alerts()
    }


def test_runbooks_name_every_reason_of_their_kind() -> None:
    for rule in rules():
        if rule.get("record") != "subject:eastwest_finding:kind" or rule["labels"]["kind"] == "other":
            continue
        kind = rule["labels"]["kind"]
        page = next(each for each in alerts() if f'single{{kind="{kind}"' in each["expr"])["annotations"]["runbook_url"]
        text = (RUNBOOKS / page.removeprefix(RUNBOOK_URL)).read_text()
        for matcher in promql.matchers(rule["expr"]):
            for reason in matcher.alternatives:
                assert f"`{reason}`" in text, page


def firing_times(case: dict[str, Any], alert: str, severity: str) -> tuple[list[int], list[int]]:
    """Minutes at which a case expects the alert, and those at which it expects no alert at all."""
    fires, silent = [], []
    for check in case.get("promql_expr_test", []):
        if "ALERTS" not in check["expr"]:
            continue
        at = int(check["eval_time"].removesuffix("m"))
        labels = [sample["labels"] for sample in check["exp_samples"]]
        if any(
            f'alertname="{alert}"' in text and (f'severity="{severity}"' in text or "severity" not in text)
            for text in labels
        ):
            fires.append(at)
        elif not labels:
            silent.append(at)
    return fires, silent


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_alert_has_a_unit_test_that_fires_and_clears(rule: Rule) -> None:
    """Before and after it fires, nothing does; the near misses are series in the same case, or cases of their own."""
    found = [firing_times(case, rule["alert"], rule["labels"]["severity"]) for case in unit_tests()]
    assert any(fires and silent and max(silent) > max(fires) for fires, silent in found)
    assert any(fires and silent and min(silent) < min(fires) for fires, silent in found)


def test_no_long_ranges_on_series_of_links() -> None:
    """Ports at most an hour, NVLinks ten minutes: what is longer, the daemon computes (docs/adr/0050)."""
    minutes = {"m": 1, "h": 60, "d": 1440}
    for rule in rules():
        for name, count, unit in re.findall(r"([\w:]+)(?:\{[^{}]*\})?\[(\d+)([mhd])", rule["expr"]):
            limit = 10 if "nvlink" in name else 60
            assert int(count) * minutes[unit] <= limit, rule


needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_amtool = pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_finds_nothing_in_rules_and_scrape_example() -> None:
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    run("promtool", "check", "config", "--lint=all", "--lint-fatal", str(DEPLOY / "prometheus.yml"))


@pytest.mark.e2e  # a minute on a busy machine
@needs_promtool
@pytest.mark.parametrize("path", sorted((DEPLOY / "tests").glob("*.yml")), ids=lambda path: path.stem)
def test_rules_pass_their_unit_tests(path: Any) -> None:
    run("promtool", "test", "rules", str(path))


@needs_amtool
def test_amtool_takes_the_alertmanager_example() -> None:
    run("amtool", "check-config", str(DEPLOY / "alertmanager.yml"))
