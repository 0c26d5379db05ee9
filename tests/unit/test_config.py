"""Bad files: every mistake is listed, with its path, and nothing is half understood."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.config import Config, load
from exporter.model import Role, UserError
from exporter.quantities import address, duration, rate


def mistakes(tmp_path: Path, text: str | bytes) -> list[str]:
    """What is said of a file, without its name."""
    file = tmp_path / "eastwest.yml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UserError) as caught:
        load(file)
    return [line.removeprefix(str(file)).lstrip(": ") for line in str(caught.value).splitlines()]


BAD = [
    ("chekcs: {}", "chekcs: no such key"),
    ("checks: {infiniband: {intervall: 5s}}", "checks.infiniband.intervall: no such key"),
    ("checks: {infiniband: {interval: 5}}", "checks.infiniband.interval: a duration with its unit is needed"),
    (
        "checks: {infiniband: {interval: 0s}}",
        "checks.infiniband.interval: a duration from 1s to 1h is needed (got '0s')",
    ),
    ("checks: {host: {timeout: -1s}}", "checks.host.timeout: a duration with its unit"),
    ("checks: {infiniband: {enabled: off}}", "checks.infiniband.enabled: `off` may mean a boolean or a word"),
    ("checks: {infiniband: {enabled: yes}}", "checks.infiniband.enabled: `yes` may mean"),
    ("checks: {infiniband: {enabled: 1}}", "checks.infiniband.enabled: true, false or auto is needed"),
    ("checks: {infiniband: {enabled: maybe}}", "checks.infiniband.enabled: true, false or auto is needed"),
    ("checks: {infiniband: {include: mlx5_0}}", "checks.infiniband.include: a list is needed"),
    ("checks: {infiniband: {include: [on]}}", "checks.infiniband.include[0]: `on` may mean"),
    ("checks: {infiniband: {exclude: [7]}}", "checks.infiniband.exclude[0]: a glob on names is needed"),
    ("checks: {nvlink: {per_link: some}}", "checks.nvlink.per_link: Input should be 'none', 'basic' or 'all'"),
    ("expect: {nvlinks_per_gpu: 99}", "expect.nvlinks_per_gpu: Input should be less than or equal to 36"),
    ("checks: 5", "checks: a mapping of keys is needed"),
    ("node: {name: off}", "node.name: `off` may mean"),
    ("node: {name: 12}", "node.name: a text is needed (got 12)"),
    ("node: {name: ''}", "node.name: String should have at least 1 character"),
    ("node: {labels: {row: a}}", "node: labels: only rack is known, not row"),
    ("nics: [{role: compute}]", "nics[0].match: is needed"),
    ("nics: [{match: a, role: boss}]", "nics[0].role: Input should be 'compute'"),
    ("nics: [{match: a, role: storage, rail: 1}]", "nics[0]: rail: only a compute NIC has a rail"),
    ("nics: [{match: a, role: compute, rail: '1'}]", "nics[0].rail: Input should be a valid integer"),
    ("nics: {match: a}", "nics: a list is needed"),
    ("web: {listen: 10428}", "web.listen: an address with its port is needed"),
    ("web: {listen: 'a:99999'}", "web.listen: an address with its port is needed"),
    ("expect: {compute: {rate: 400}}", "expect.compute.rate: a rate with its unit is needed"),
    ("paths: {sysfs: 5}", "paths.sysfs: a path is needed"),
    ("paths: {state: ''}", "paths.state: a path is needed"),
    (r'paths: {state: "a\0b"}', "paths.state: a path is needed"),
    (r'paths: {proc: "\ud800"}', "paths.proc: a path is needed"),
    (r'web: {config_file: "a\0b"}', "web.config_file: a path is needed"),
    ("log: !!bool maybe", "1:6: this is no bool"),
    ("log: {level: !!timestamp soon}", "1:14: this is no timestamp"),
    ("nics:\n - !!int ''", "2:4: this is no int"),
    ("log: !!float ''", "1:6: this is no float"),
    ("log: !!timestamp 2020-99-99", "1:6: this is no timestamp"),
    ("? !!bool x\n: 1", "1:3: this is no bool"),
    ("log: !!set 5", "1:6: expected a mapping node, but found scalar"),
    ("log: !!map [[a, b]]", "1:6: expected a mapping node, but found sequence"),
    ("log: !!omap [5]", "1:14: expected a mapping of length 1, but found scalar"),
    ("log: {level: loud}", "log.level: Input should be 'debug'"),
    ("log: {}\nlog: {}", "2:1: 'log' is given twice"),
    ("nics: [{match: 'mlx5_[0-1', role: ignore}]", "nics[0].match: a glob on names is needed"),
    ("expect: {compute: {rate: 0Gbit/s}}", "expect.compute.rate: a rate with its unit is needed"),
    ("checks: {host: {timeout: 2m}}", "checks.host.timeout: a duration from 1ms to 60s is needed"),
    ("1: a", "1:1: '1' is not a name"),
    ("a: &x b\nc: *x", "2:4: aliases are not taken"),
    ("a: {", "1:5: "),
    ("- a", "a mapping of keys is needed"),
    ("!!python/object:os.system x", "could not determine a constructor for the tag"),
    (b"\x00\x01", "not YAML: unacceptable character"),
    (b"\xff\xfe\xfd", "not YAML: "),
    ("a: " + "[" * 5000, "nested too deeply"),
    ("x" * (1 << 20) + "y", "larger than 1048576 bytes"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[str(said)[:40] for _, said in BAD])
def test_one_mistake_gives_one_line_that_says_where(tmp_path: Path, text: str | bytes, said: str) -> None:
    (line,) = mistakes(tmp_path, text)
    assert said in line


def test_all_mistakes_of_a_file_are_listed(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "node: {name: off}",
            "chekcs: 1",
            "web: {listen: 1}",
            "checks: {host: {interval: 5}, infiniband: {typo: x}}",
        ]
    )
    said = [line.split(":")[0] for line in mistakes(tmp_path, text)]
    assert sorted(said) == ["checks.host.interval", "checks.infiniband.typo", "chekcs", "node.name", "web.listen"]


def test_mistakes_of_the_yaml_and_of_the_keys_are_listed_together(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "node: {name: a, name: b}\nlog: {}\nlog: {}\n1: a\nnope: 1\n")
    assert said == [
        "1:17: 'name' is given twice",
        "3:1: 'log' is given twice",
        "4:1: '1' is not a name",
        "nope: no such key",
    ]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a pipe, not a file"):
        load(tmp_path / "pipe")


def test_a_wrong_file_does_not_pour_its_content_into_the_log(tmp_path: Path) -> None:
    secret = "hunter2" * 20
    assert all(
        secret not in line
        for line in mistakes(tmp_path, f"{secret}: 1\nnode: {{name: [{secret}]}}\nlog: {{level: {secret}}}")
    )


@pytest.mark.parametrize(
    "text", ["", "# nothing", "---", "checks:", "node: {}\nnics: []", "checks: {infiniband: }", "nics:"]
)
def test_files_that_say_nothing_are_the_defaults(tmp_path: Path, text: str) -> None:
    file = tmp_path / "eastwest.yml"
    file.write_text(text)
    assert load(file) == Config() == load(None)


def test_a_full_file(tmp_path: Path) -> None:
    file = tmp_path / "eastwest.yml"
    file.write_text(
        "node: {name: gpu-3, labels: {rack: r12}}\n"
        "nics: [{match: 'mlx5_[0-7]', role: compute, rail: 2, leaf: leaf-1, cage: c0}]\n"
        "paths: {sysfs: /host/sys, proc: /host/proc, state: /tmp/state}\n"
        "log: {level: debug, format: json}\nweb: {listen: '[::1]:9'}\n"
        "checks: {infiniband: {enabled: true, interval: 10s, timeout: 500ms, include: ['*'],\n"
        "  vendor_counters: ['a,b']},\n"
        "  host: {enabled: false}}\nexpect: {compute: {rate: 400Gbit/s}, storage: {rate: 25GB/s}}\n"
    )
    config = load(file)
    assert config.nics[0].role is Role.COMPUTE
    assert config.web.listen == ("::1", 9)
    assert (config.checks.infiniband.interval, config.checks.infiniband.deadline) == (10, 0.5)
    assert (config.expect.compute.rate, config.expect.storage.rate) == (50e9, 25e9)
    assert config.checks.host.enabled is False


@pytest.mark.parametrize("path", ["/nowhere/at/all", "/"])
def test_a_file_that_can_not_be_read_is_one_line(path: str) -> None:
    with pytest.raises(UserError, match=r"^/.*: (No such file|Is a directory)"):
        load(Path(path))


def test_deadlines_default_to_the_interval_and_at_most_five_seconds() -> None:
    checks = Config().checks
    assert (checks.infiniband.deadline, checks.host.deadline) == (5, 5)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("100ms", 0.1), ("1.5m", 90), ("6h", 21600), ("7d", 604800), ("5 s", 5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "value"), [("400Gbit/s", 50e9), ("50GB/s", 50e9), ("1.6Tbit/s", 200e9), ("8bit/s", 1)]
)
def test_rates(text: str, value: float) -> None:
    assert rate(text) == pytest.approx(value)


ANYWHERE = "0.0.0.0"  # noqa: S104 - what is parsed, not bound


@pytest.mark.parametrize(
    ("text", "where"), [(":80", (ANYWHERE, 80)), ("[::]:1", ("::", 1)), ("host-1.x:0", ("host-1.x", 0))]
)
def test_addresses(text: str, where: tuple[str, int]) -> None:
    assert address(text) == where


@pytest.mark.parametrize("parser", [duration, rate, address])
@pytest.mark.parametrize(
    "value",
    [
        5,
        5.0,
        True,
        None,
        "",
        "5",
        "s",
        "-5s",
        "5S",
        "5s5",
        "400Gbit",
        "400Gb/s",
        "1:2:3",
        "nan s",
        "1e3s",
        "\u0665s",
        "\uff15s",
        "\u0664\u0660\u0660Gbit/s",
        "a:\u0661\u0660",
        "1.\u0665GB/s",
        "5\u00b2s",
    ],
)
def test_what_has_no_unit_or_a_wrong_one_is_refused(parser: object, value: object) -> None:
    assert callable(parser)
    with pytest.raises(ValueError, match="is needed, such as"):
        parser(value)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=120))
def test_arbitrary_bytes_are_a_configuration_or_a_users_mistake(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "eastwest.yml"
    file.write_bytes(content)
    try:
        config = load(file)
    except UserError as error:
        said = str(error)
    else:
        said = f"{file}: {type(config).__name__}"
    assert said.startswith(f"{file}:")
