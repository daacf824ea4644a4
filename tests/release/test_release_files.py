"""The container, the GitHub Action and the workflows: linted, and their steps run without their hosts."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcode.cli.flags import FLAGS
from tests.arch.sources import ROOT
from tests.e2e.running import NO_KEYRING
from tests.e2e.warm import machine_variables

WORKFLOWS = [ROOT / ".github/workflows/check.yml", ROOT / ".github/workflows/release.yml", ROOT / ".gitlab-ci.yml"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SCRIPTS = [ROOT / ".ci" / name for name in ("run", "build", "action.sh")]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]


def loaded(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in text.splitlines() if line.strip()]


def run_steps(value: object) -> Iterator[str]:
    """Yield each shell script of a workflow."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "run" and isinstance(inner, str):
                yield inner
            elif key in ("script", "before_script") and isinstance(inner, list):
                yield "\n".join(inner)
            else:
                yield from run_steps(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from run_steps(inner)


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_scripts_of_a_workflow_are_valid_and_run_files_that_exist(path: Path) -> None:
    scripts = list(run_steps(loaded(path)))
    assert scripts
    for script in scripts:
        # An expression in a script would let an input become a command.
        assert "${{" not in script
        subprocess.run(["bash", "-n", "-c", script], check=True, capture_output=True, timeout=10)
        for name in re.findall(r"(?<![\w/])\.ci/[\w.]+", script):
            assert (ROOT / name).stat().st_mode & stat.S_IXUSR, name


@pytest.mark.parametrize("path", [".github/workflows/check.yml", ".gitlab-ci.yml"])
def test_checks_of_every_host_follow_the_readme_on_a_clean_machine(path: str) -> None:
    job = yaml.safe_load((ROOT / path).read_text())
    job = job.get("jobs", job)["clean-machine"]
    steps = [step.get("run") for step in job["steps"]] if "steps" in job else job["script"]
    assert "make test-all ARGS=tests/release" in steps


def test_versions_are_those_of_the_package_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={VERSIONS[0]}"
    prefix = "Programming Language :: Python :: 3."
    assert [
        classifier.rpartition(" ")[2] for classifier in project["classifiers"] if classifier.startswith(prefix)
    ] == VERSIONS
    assert loaded(WORKFLOWS[0])["jobs"]["check"]["strategy"]["matrix"]["python"] == VERSIONS
    assert loaded(WORKFLOWS[2])["check"]["parallel"]["matrix"] == [{"PYTHON": VERSIONS}]
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    assert "Python 3.11, 3.12, 3.13 or 3.14 on Linux, macOS or WSL 2" in " ".join(page.split())
    default = re.search(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert default is not None
    assert default[1] in VERSIONS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_is_valid(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True, capture_output=True, timeout=10)


def test_container_is_slim_and_runs_without_root() -> None:
    kinds = [kind for kind, _ in instructions()]
    assert [image for kind, image in instructions() if kind == "FROM"] == [
        "python:${PYTHON}-slim AS build",
        "python:${PYTHON}-slim",
    ]
    assert kinds.index("USER") > max(at for at, kind in enumerate(kinds) if kind == "RUN")
    assert [user for kind, user in instructions() if kind == "USER"] == ["1000"]
    assert kinds[-1] == "ENTRYPOINT"


def action(
    tmp_path: Path, answer: str, code: int, **env: str
) -> tuple[subprocess.CompletedProcess[str], str, list[str]]:
    """Run the last step of the action with a program that records its arguments; return its output and these."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "qcode"
    (tmp_path / "answer").write_text(answer)
    program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >"{tmp_path}/seen"\ncat "{tmp_path}/answer"\nexit {code}\n')
    program.chmod(0o755)
    output = tmp_path / "output"
    done = subprocess.run(
        ["bash", str(ROOT / ".ci/action.sh")],
        env={"PATH": f"{programs}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(output), **env},
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done, output.read_text(), (tmp_path / "seen").read_text().split("\0")[:-1]


def test_action_passes_its_inputs_as_arguments(tmp_path: Path) -> None:
    flags = "--max-budget-usd=0.50\n--allowed-tools\nshell(git log *)\n"
    hostile = '-x "; touch stolen; $(touch stolen) `touch stolen`'
    done, output, seen = action(tmp_path, "fine\n", 0, PROMPT=hostile, MODEL="demo/demo", FLAGS=flags, TRUST="true")
    assert done.returncode == 0, done.stderr
    assert seen == [
        "--max-budget-usd=0.50", "--allowed-tools", "shell(git log *)", "--model", "demo/demo", "--trust", "--print",
        "--", hostile,
    ]  # fmt: skip
    assert done.stdout == "fine\n"
    assert "exit-code=0\n" in output
    names = {name for flag in FLAGS for name in flag.names}
    assert {"--model", "--trust", "--print", "--max-budget-usd", "--allowed-tools"} <= names


def test_action_hands_on_the_exit_code_and_no_answer_ends_its_value(tmp_path: Path) -> None:
    done, output, seen = action(tmp_path, "EOF\nresult<<X\nexit-code=0\n", 56, PROMPT="hi")
    assert done.returncode == 56
    assert seen == ["--print", "--", "hi"]
    first, second, *rest = output.splitlines()
    assert first == "exit-code=56"
    mark = second.removeprefix("result<<")
    assert len(mark) > 30
    assert rest[-1] == mark
    assert mark not in rest[:-1]


def linter(name: str) -> str:
    """Return the path of a linter of this environment; skip the test if it is not installed."""
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        pytest.skip(f"{name} is not installed: `make .venv/.lint` installs it")
    return str(found)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hadolint", ["Dockerfile"]),
        ("check-jsonschema", ["--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS[:2])]),
        ("check-jsonschema", ["--builtin-schema", "vendor.github-actions", "action.yml"]),
        (
            "check-jsonschema",
            ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(WORKFLOWS[2])],
        ),
        ("zizmor", ["--offline", "--quiet", ".github/workflows", "action.yml"]),
    ],
    ids=["Dockerfile", "workflows", "action", "gitlab", "security of workflows"],
)
def test_linter_has_no_complaint(name: str, arguments: Sequence[str]) -> None:
    done = subprocess.run([linter(name), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def copied(target: Path, *, with_tests: bool = False) -> Path:
    """Copy what `COPY . .` copies: the files of the repository without those of `.dockerignore`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=20,
    ).stdout.splitlines()  # fmt: skip
    ignored = [] if with_tests else (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in listed:
        if name.split("/")[0] in ignored or not (ROOT / name).is_file():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    return target


@pytest.mark.broad
@pytest.mark.timeout(900)
def test_steps_of_the_container_work_in_an_empty_environment(tmp_path: Path) -> None:
    """The steps that build qcode run unchanged, except for `/opt/qcode`; those that install packages do not run."""
    (build,) = [text for kind, text in instructions() if kind == "RUN" and "pip install" in text]
    (system, users) = [text for kind, text in instructions() if kind == "RUN" and "pip install" not in text]
    assert system.startswith("apt-get update")
    assert "useradd --uid 1000" in users
    source, home, work = copied(tmp_path / "src"), tmp_path / "home", tmp_path / "work"
    for folder in (home, home / ".qcode", work):
        folder.mkdir()
        folder.chmod(0o777)  # as the container does
    machine = {name: value for name, value in machine_variables().items() if name != "PATH"}
    env = {**machine, "HOME": str(home), "PATH": f"{Path(sys.base_prefix)}/bin:/usr/bin:/bin"}
    script = build.replace("/opt/qcode", str(tmp_path / "qcode"))
    subprocess.run(["bash", "-ec", script], cwd=source, env=env, check=True, capture_output=True, timeout=800)
    # An id without a home and a name, as `docker run --user 4711` has it, in a user namespace.
    unknown = ["unshare", "--user", "--map-user=4711", "--map-group=4711"]
    if shutil.which("unshare") is None or subprocess.run([*unknown, "true"], capture_output=True).returncode:
        unknown = []
    env |= {"QCODE_HOME": str(home / ".qcode"), "PYTHON_KEYRING_BACKEND": NO_KEYRING}
    done = subprocess.run(
        [*unknown, str(tmp_path / "qcode/bin/qcode"), "-m", "demo/demo", "-p", "hello"],
        cwd=work, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "demo model" in done.stdout
    assert list((home / ".qcode/state/sessions").glob("*/*.jsonl"))
