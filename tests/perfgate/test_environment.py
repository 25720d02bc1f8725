"""The environment as read from a machine whose files the tests wrote."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path

import pytest

from perfgate.environment import read_environment
from perfgate.model import Environment

FILES = {
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some  CPU @ 3.0GHz\nmodel name\t: other\n",
    "proc/meminfo": "MemFree: 1 kB\nMemTotal:       16384 kB\n",
    "proc/loadavg": "0.42 0.30 0.20 1/99 4242\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/fs/cgroup/cpu.max": "200000 100000\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_machine_is_described(root: Path) -> None:
    read = read_environment(root, {})

    assert read.cpu == "Some CPU @ 3.0GHz"
    assert read.memory_bytes == 16 * 1024 * 1024
    assert read.os == "Debian GNU/Linux 12 (bookworm)"
    assert read.python == f"{platform.python_implementation()} {platform.python_version()}"
    assert read.cores == len(os.sched_getaffinity(0))
    assert read.runner == ""


def test_facts_tell_what_may_explain_a_difference(root: Path) -> None:
    facts = dict(read_environment(root, {}).facts)

    assert facts["governor"] == "powersave"
    assert facts["load_average"] == "0.42"
    assert facts["cpu_quota"] == "200000 100000"
    assert facts["numpy"].count(".") >= 1
    assert list(facts) == sorted(facts)
    assert "" not in facts.values()


def test_the_machine_is_known_again_but_not_given_away(root: Path) -> None:
    machine = read_environment(root, {}).machine
    again = read_environment(root, {}).machine
    (root / "etc/machine-id").write_text("f" * 32)

    assert machine == again != read_environment(root, {}).machine
    assert len(machine) == 16
    assert machine not in FILES["etc/machine-id"]


def test_without_its_files_a_machine_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for name in ("one", "two"):
        monkeypatch.setattr(platform, "node", lambda name=name: name)
        seen.add(read_environment(tmp_path, {}).machine)

    assert len(seen) == 2


def test_without_any_file_what_is_unknown_is_empty(tmp_path: Path) -> None:
    read = read_environment(tmp_path, {})

    assert read.memory_bytes == 0
    assert read.cpu in (platform.processor(), platform.machine())
    assert read.os == f"{platform.system()} {platform.release()}"
    assert {"governor", "load_average"}.isdisjoint(dict(read.facts))


def test_an_arm_core_is_named_by_its_numbers(root: Path) -> None:
    (root / "proc/cpuinfo").write_text("processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n")

    assert read_environment(root, {}).cpu == "arm 0x41 0xd0c"


@pytest.mark.parametrize(
    ("variables", "runner"),
    [
        ({"GITHUB_ACTIONS": "true", "CI": "true"}, "github"),
        (
            {"GITHUB_ACTIONS": "true", "ImageOS": "ubuntu24", "ImageVersion": "20250101.1"},
            "github ubuntu24 20250101.1",
        ),
        ({"GITLAB_CI": "true", "CI": "true", "CI_RUNNER_DESCRIPTION": "big"}, "gitlab big"),
        ({"JENKINS_URL": "https://ci", "NODE_NAME": "agent 7"}, "jenkins agent 7"),
        ({"CI": "1"}, "ci"),
        ({"CI": "false"}, ""),
        ({"GITHUB_ACTIONS": "", "HOME": "/"}, ""),
    ],
)
def test_the_runner_is_named(root: Path, variables: dict[str, str], runner: str) -> None:
    assert read_environment(root, variables).runner == runner


def test_hosted_runners_of_one_kind_are_one_environment(root: Path) -> None:
    variables = {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "github-hosted"}
    here = read_environment(root, variables)
    (root / "etc/machine-id").write_text("f" * 32)
    there = read_environment(root, variables)

    assert here.fingerprint() == there.fingerprint()
    assert here.runner == "github github-hosted"


def test_load_does_not_tell_environments_apart(root: Path) -> None:
    calm = read_environment(root, {})
    (root / "proc/loadavg").write_text("9.00 0.30 0.20 1/99 4242\n")
    busy = read_environment(root, {})

    assert calm.fingerprint() == busy.fingerprint()
    assert dict(busy.facts)["load_average"] == "9.00"


def test_this_machine_can_be_read() -> None:
    read = read_environment()

    assert read.cores >= 1
    assert read.python
    assert read.os
    assert read != Environment()
    assert dataclasses.replace(read, facts=()) == dataclasses.replace(read_environment(), facts=())
