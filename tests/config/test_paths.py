"""The folders of configuration and state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qcode.config.paths import ConfigPaths, exists_or_unknown
from qcode.protocol.errors import ConfigError


def test_qcode_home_variable_moves_all_folders(tmp_path: Path) -> None:
    paths = ConfigPaths.from_env({"QCODE_HOME": str(tmp_path)})
    assert paths.config_file == tmp_path / "config.toml"
    assert paths.state_dir == tmp_path / "state"


def test_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ConfigPaths.from_env({"QCODE_HOME": "here"}).config_dir == tmp_path / "here"


def test_tilde_means_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ConfigPaths.from_env({"QCODE_HOME": "~/q"}).config_dir == tmp_path / "q"
    with pytest.raises(ConfigError, match="QCODE_HOME"):
        ConfigPaths.from_env({"QCODE_HOME": "~nobody-of-that-name/q"})


@pytest.mark.parametrize("env", [{}, {"QCODE_HOME": ""}, {"QCODE_HOME": "  "}])
def test_platform_folders_are_the_default(env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    paths = ConfigPaths.from_env(env)
    assert all("qcode" in folder.name for folder in (paths.config_dir, paths.state_dir))
    assert paths.config_dir != paths.state_dir


def test_paths_import_only_the_standard_library(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from qcode.config.load import load\n"
        "from qcode.config.paths import ConfigPaths\n"
        "home = Path(sys.argv[1])\n"
        "(home / 'config.toml').write_text('model = \"a/b\"')\n"
        "load(ConfigPaths.from_env({'QCODE_HOME': sys.argv[1]}), {}, {}, home / 'project', True)\n"
        "known = sys.stdlib_module_names | {'qcode'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - known - before))\n"
    )
    run = [sys.executable, "-c", "import sys\nbefore = {n.partition('.')[0] for n in sys.modules}\n" + code]
    assert subprocess.run([*run, str(tmp_path)], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_user_without_home_folder_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match="set HOME or QCODE_HOME"):
        ConfigPaths.from_env({})


def test_path_below_a_file_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / ".qcode").write_text("")
    assert not exists_or_unknown(tmp_path / ".qcode" / "config.toml")


def test_broken_link_and_path_that_cannot_be_searched_may_exist(tmp_path: Path) -> None:
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    assert exists_or_unknown(tmp_path / "broken")
    assert exists_or_unknown(tmp_path / "loop" / "config.toml")
    assert not exists_or_unknown(tmp_path / "nothing")
