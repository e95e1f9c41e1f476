"""dev.py, noxfile.py and the workflows agree with each other and with what the project claims."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))


@pytest.fixture
def dev():
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sessions() -> list[str]:
    command = [sys.executable, "-m", "nox", "-l", "-f", str(ROOT / "noxfile.py")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[*-] (\S+) -> \S", listed, re.MULTILINE)


def steps(workflow: Path) -> list[dict]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_every_task_is_a_session_and_every_python_has_one(dev):
    found = sessions()
    assert {f"tests-{version}" for version in PYTHONS} == {name for name in found if name.startswith("tests")}
    named = {name for run in dev.TASKS.values() for name in run}
    assert named == {name.partition("-")[0] for name in found}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_workflows_run_tasks_that_exist_and_pin_every_action(workflow, dev):
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
        for task in re.findall(r"dev\.py (?:--no-system )?(\w+)", step.get("run", "")):
            assert task in {*dev.TASKS, "demo", "system"}
    text = workflow.read_text()
    assert len(re.findall(r"uses: \S+ # v[\d.]+$", text, re.MULTILINE)) == text.count("uses: ")


def test_workflows_test_every_claimed_python():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == PYTHONS
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]


def test_only_the_publishing_job_may_ask_for_an_identity_without_building():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi" and jobs["publish"]["needs"] == "build"
    assert not [step for step in jobs["publish"]["steps"] if "run" in step]


def test_missing_programs_are_named_before_they_are_installed(dev, monkeypatch, capsys):
    """What apt-get would install, what for, and how to leave it out come first; then what is still missing."""
    ran = []
    monkeypatch.setattr(dev.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(dev.os, "geteuid", lambda: 0)
    monkeypatch.setattr(dev.subprocess, "run", lambda command, **_: ran.append((command, capsys.readouterr().out)))
    monkeypatch.delenv("CI", raising=False)
    commands = [command for _, command, _ in dev.PROGRAMS]
    assert dev.missing(install=True) == commands
    (update, said), (install, _) = ran
    assert update[:2] == ["apt-get", "update"] and install[-len(commands) :] == [entry[2] for entry in dev.PROGRAMS]
    for purpose, _, package in dev.PROGRAMS:
        assert f"{package} ({purpose})" in said
    assert "--no-system" in said
    ran.clear()
    capsys.readouterr()
    assert dev.missing(install=False) == commands and ran == []
    assert capsys.readouterr().out.count("leaving out") == len(commands)
    monkeypatch.setenv("CI", "1")
    with pytest.raises(SystemExit, match="in CI, no tests may be left out"):
        dev.missing(install=False)


def test_another_system_is_refused_with_a_reason(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev.os, "name", "nt")
    monkeypatch.setattr(sys, "argv", ["dev.py", "demo"])
    assert dev.main() == 1
    assert "expected a POSIX system" in capsys.readouterr().out


def test_the_repository_passes_its_review():
    """`sp-repo-review` finds nothing that isn't fixed or explained in docs/development/tools.md."""
    done = subprocess.run(["repo-review", "."], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    page = (ROOT / "docs" / "development" / "tools.md").read_text()
    ignored = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["repo-review"]["ignore"]
    assert [code for code in ignored if code not in page] == []


def test_workflows_have_no_known_weakness():
    command = ["zizmor", "--offline", "--quiet", "--persona=pedantic", ".github"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
