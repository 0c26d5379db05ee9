"""What a rank's NCCL is told, and what of it can't be."""

from pathlib import Path

from exporter.probes.engines.nccl_env import not_kept_out


def test_settings_that_can_not_be_kept_out_are_named_where_they_are_there(tmp_path: Path) -> None:
    etc, home = tmp_path / "nccl.conf", tmp_path / "home"
    home.mkdir()
    assert not_kept_out(22203, home, etc) == ""
    (home / ".nccl.conf").write_text("NCCL_MAX_NCHANNELS=1\n")
    assert not_kept_out(22203, home, etc) == str(home / ".nccl.conf")
    assert not_kept_out(22304, home, etc) == "", "from 2.23 on NCCL_CONF_FILE leads elsewhere"
    assert not_kept_out(22203, None, etc) == ""
    etc.write_text("")
    assert not_kept_out(22203, home, etc) == f"{home / '.nccl.conf'} {etc}"
    assert not_kept_out(23203, home, etc) == str(etc)
