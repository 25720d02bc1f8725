"""Reads what makes two sampled numbers comparable: the machine, its system, the CI runner.

Everything is read from files below `root` and from environment variables, so tests give their own.
What cannot be read is left empty.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from perfgate.model import Environment

# The variable that a CI provider sets → its name and the variables that tell its machines apart.
_RUNNERS = (
    ("GITHUB_ACTIONS", "github", ("RUNNER_ENVIRONMENT", "ImageOS", "ImageVersion", "RUNNER_ARCH")),
    ("GITLAB_CI", "gitlab", ("CI_RUNNER_DESCRIPTION", "CI_RUNNER_EXECUTABLE_ARCH")),
    ("CIRCLECI", "circleci", ("CIRCLE_RESOURCE_CLASS",)),
    ("BUILDKITE", "buildkite", ("BUILDKITE_AGENT_META_DATA_QUEUE",)),
    ("TF_BUILD", "azure", ("ImageOS", "ImageVersion")),
    ("JENKINS_URL", "jenkins", ("NODE_NAME",)),
    ("CI", "ci", ()),
)

_MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")

# Name of a fact → the file that holds it.
_FACT_FILES = (
    ("governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("smt", "sys/devices/system/cpu/smt/active"),
    ("cpu_quota", "sys/fs/cgroup/cpu.max"),
    ("memory_limit", "sys/fs/cgroup/memory.max"),
)


def read_environment(
    root: Path = Path("/"), variables: Mapping[str, str] = os.environ
) -> Environment:
    """The environment of this process, now: the load average is that of the start of a run."""
    return Environment(
        machine=_machine(root, variables),
        cpu=_cpu(root),
        cores=_cores(),
        memory_bytes=_memory_bytes(root),
        os=_os_name(root),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        runner=_runner(variables),
        facts=_facts(root),
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _machine(root: Path, variables: Mapping[str, str]) -> str:
    """A digest that stays the same on one machine and does not give away the machine's own id.

    Empty on hosted runners: each job gets another machine of the kind that `runner` names.
    """
    if variables.get("RUNNER_ENVIRONMENT") == "github-hosted":
        return ""
    found = next(filter(None, (_read(root / name) for name in _MACHINE_IDS)), platform.node())
    return hashlib.sha256(f"perfgate:{found}".encode()).hexdigest()[:16] if found else ""


def _cpu(root: Path) -> str:
    text = _read(root / "proc/cpuinfo")
    model = _field(text, "model name") or _field(text, "Model") or _field(text, "cpu model")
    if model:
        return " ".join(model.split())
    parts = [_field(text, name) for name in ("CPU implementer", "CPU part")]
    known = " ".join(["arm", *parts]) if all(parts) else platform.processor()
    return known or platform.machine()


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def _cores() -> int:
    """Cores that this process may use, which in a container are often fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 0


def _memory_bytes(root: Path) -> int:
    total = _field(_read(root / "proc/meminfo"), "MemTotal").partition(" ")[0]
    return int(total) * 1024 if total.isdecimal() else 0


def _os_name(root: Path) -> str:
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', _read(root / "etc/os-release"), re.MULTILINE)
    return match.group(1) if match else f"{platform.system()} {platform.release()}".strip()


def _runner(variables: Mapping[str, str]) -> str:
    for mark, name, details in _RUNNERS:
        if variables.get(mark, "").lower() not in ("", "false", "0"):
            return " ".join([name, *(variables[d] for d in details if variables.get(d))])
    return ""


def _facts(root: Path) -> tuple[tuple[str, str], ...]:
    """What explains a difference afterwards but does not forbid a comparison."""
    facts = {name: _read(root / file) for name, file in _FACT_FILES}
    facts["kernel"] = platform.release()
    facts["load_average"] = _read(root / "proc/loadavg").partition(" ")[0]
    facts["numpy"] = _version("numpy")
    return tuple(sorted((name, value) for name, value in facts.items() if value))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
