"""The rules of grafana/dashboard-linter, in the few lines that each needs; and the tool itself where it is installed.

Left out are the rules that grafana/dashboards/.lint excludes, with the reason.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dashboards.viewer import FOLDER, Json, dashboards, expressions, panels

ALL = dashboards()
UNITS = {"none", "bps", "Bps", "percentunit", "celsius", "cps", "s", "sci", "string"}
each = pytest.mark.parametrize("uid", ALL)
_WINDOW = re.compile(r"\[([^\]]+)\](\s*@ end\(\))?")
_FILLED = {
    "$__rate_interval": "1m",
    "$__range": "3h",
    "$topn": "20",
}


def variables(dashboard: Json) -> dict[str, Json]:
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


@each
def test_template_datasource(uid: str) -> None:
    sources = [variable for variable in ALL[uid]["templating"]["list"] if variable["type"] == "datasource"]
    (source,) = sources
    assert (source["name"], source["label"], source["query"]) == ("datasource", "Data source", "prometheus")


@each
def test_template_job(uid: str) -> None:
    job = variables(ALL[uid])["job"]
    assert (job["label"], job["multi"], job["includeAll"], job["allValue"]) == ("Job", True, True, ".+")


@each
def test_template_reload_on_time_change(uid: str) -> None:
    asking = [variable for variable in ALL[uid]["templating"]["list"] if variable["type"] == "query"]
    assert asking
    assert all(variable["refresh"] == 2 for variable in asking)


@each
def test_panels_have_titles_descriptions_and_queries(uid: str) -> None:
    for panel in panels(ALL[uid]):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["targets"], panel["title"]


@each
def test_panels_have_units_that_grafana_knows(uid: str) -> None:
    for panel in panels(ALL[uid]):
        config = panel["fieldConfig"]
        assert config["defaults"]["unit"] in UNITS, panel["title"]
        given = [how["value"] for rule in config["overrides"] for how in rule["properties"] if how["id"] == "unit"]
        assert set(given) <= UNITS, panel["title"]


@each
def test_targets_select_the_job(uid: str) -> None:
    for where, expr in expressions(ALL[uid]):
        if where.startswith(("annotation", "Alerts")) or where == "variable job":
            continue
        for selector in re.findall(r"\b(?:eastwest_|process_|up\{)[^}]*\}", expr):
            assert 'job=~"$job"' in selector, (where, selector)


@each
def test_counters_are_only_read_as_rates_or_increases(uid: str) -> None:
    for where, expr in expressions(ALL[uid]):
        for found in re.finditer(r"(\w+)\(eastwest_\w+_total\{|(eastwest_\w+_total\{)", expr):
            assert found[1] in {"rate", "increase"}, (where, expr)


@each
def test_ranges_follow_the_panel_or_are_short_or_fixed_at_the_end(uid: str) -> None:
    for panel in panels(ALL[uid]):
        for target in panel["targets"]:
            for window, at_end in _WINDOW.findall(target["expr"]):
                if window == "$__range":
                    assert at_end or target["instant"], panel["title"]
                elif target["range"] and not at_end:
                    assert window == "$__rate_interval" or "increase" in target["expr"], panel["title"]
                else:
                    assert window in {"5m", "1h", "$__rate_interval"}, panel["title"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promql_is_what_prometheus_parses(tmp_path: Path) -> None:
    rules = []
    for uid, dashboard in ALL.items():
        for number, (where, expr) in enumerate(expressions(dashboard)):
            name = f"{uid.replace('-', '_')}:{number}"
            rules.append(f"  - record: {name}\n    # {where}\n    expr: |-\n      {_plain(expr)}\n")
    file = tmp_path / "rules.yml"
    file.write_text("groups:\n- name: dashboards\n  rules:\n" + "".join(rules))
    command = ["promtool", "check", "rules", "--lint=none", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.skipif(shutil.which("dashboard-linter") is None, reason="grafana/dashboard-linter is not installed")
@each
def test_the_linter_itself_has_nothing_to_say(uid: str) -> None:
    command = ["dashboard-linter", "lint", "--strict", str(FOLDER / f"{uid}.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _plain(expr: str) -> str:
    for macro, value in _FILLED.items():
        expr = expr.replace(macro, value)
    return expr
