"""Dependencies are pinned, licensed and listed, and the wheel is reproducible."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("run", "dev")


@pytest.fixture(scope="module")
def inventory():
    spec = importlib.util.spec_from_file_location("inventory", ROOT / "requirements" / "inventory.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", LOCKS)
def test_locks_pin_versions_and_hashes_without_addresses(name):
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 25
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.!+]+( ; [^\n]+)? \\\n", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry
    assert "://" not in text and "@ " not in text


def test_every_licence_is_approved(inventory):
    """A new licence needs a human decision: approve it in requirements/inventory.py, or drop the package."""
    runs = inventory.locked("run")
    for name in inventory.locked("dev"):
        expression = inventory.licence(name)
        approved = inventory.APPROVED if name in runs else inventory.APPROVED_DEV
        assert inventory.is_approved(expression, approved), f"{name}: {expression}"


def test_the_list_of_licences_is_up_to_date(inventory):
    assert inventory.LICENCES.read_text() == inventory.licences(), "run python3 dev.py licences"


def test_the_bundled_library_is_the_documented_one():
    """A changed library needs a new hash in the documentation, and its licence in every report."""
    static = ROOT / "src" / "phsafe" / "reports" / "static"
    shipped = static / "write-excel-file.min.js"
    page = (ROOT / "docs" / "development" / "supply-chain.md").read_text()
    assert hashlib.sha256(shipped.read_bytes()).hexdigest() in page
    assert [path.name for path in static.glob("*.min.js")] == [shipped.name]
    assert (static / "write-excel-file.LICENSE.txt").read_text().count("MIT License") == 2


@pytest.mark.parametrize(
    ("expression", "approved"),
    [
        ("MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("BSD-3-Clause AND (GPL-2.0-only OR MIT)", True),
        ("unknown", False),
    ],
)
def test_approval_of_compound_licences(inventory, expression, approved):
    assert inventory.is_approved(expression, inventory.APPROVED) == approved


def test_the_bill_of_materials_lists_all_locked_packages(inventory):
    bom = inventory.sbom()
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    locked = {f"pkg:pypi/{name}@{version}" for name, own in inventory.locked("run").items() for version in own}
    bundled = inventory.bundled()["purl"]
    assert {component["purl"] for component in bom["components"]} == locked | {bundled}
    assert all(component["licenses"] != [{"expression": "unknown"}] for component in bom["components"])
    nodes = {node["ref"]: node["dependsOn"] for node in bom["dependencies"]}
    assert nodes.keys() - locked == {bom["metadata"]["component"]["bom-ref"]}
    assert bundled in nodes[bom["metadata"]["component"]["bom-ref"]]
    reached, todo = set(), [bom["metadata"]["component"]["bom-ref"]]
    while todo:
        reference = todo.pop()
        reached.add(reference)
        todo += [one for one in nodes.get(reference, []) if one not in reached]
    assert any(one.startswith("pkg:pypi/opendp@") for one in reached)
    assert len(reached) > 0.8 * len(locked)
    assert json.dumps(bom) == json.dumps(inventory.sbom())


def test_the_bill_of_materials_has_the_hashes_of_the_lock(inventory):
    """Each component lists the hash of every file that may be installed for it, and no other."""
    lock = (ROOT / "requirements" / "run.lock").read_text()
    of = {component["purl"]: component["hashes"] for component in inventory.sbom()["components"]}
    script = ROOT / "src" / "phsafe" / "reports" / "static" / "write-excel-file.min.js"
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    assert of.pop("pkg:npm/write-excel-file@4.1.1") == [{"alg": "SHA-256", "content": digest}]
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert len(of) == len(entries)
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==([\w.!+]+)", entry).groups()
        assert of[f"pkg:pypi/{name.lower()}@{version}"] == [
            {"alg": "SHA-256", "content": digest} for digest in re.findall("sha256:([0-9a-f]{64})", entry)
        ]
    assert sum(map(len, of.values())) == lock.count("--hash=sha256:")


def recipe():
    """The instructions of the Containerfile, as (word, rest)."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


def program(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_container_is_built_from_files_that_exist():
    copied = [rest.split()[0] for word, rest in recipe() if word == "COPY" and not rest.startswith("--from=")]
    made = "wheelhouse"
    assert made in copied and made in program("dev").TASKS
    assert [path for path in copied if path != made and not (ROOT / path).exists()] == []
    rules = [line for line in (ROOT / ".containerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules == ["*", *(f"!{path}" for path in copied)], "nothing else may get into an image"
    assert f"/{made}/" in (ROOT / ".gitignore").read_text().split()


def test_the_container_runs_programs_and_options_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {f"/opt/phsafe/bin/{name}" for name in ("pip", *project["scripts"])}
    named = [word for _, rest in recipe() for word in re.findall(r"/opt/phsafe/bin/\w+", rest)]
    assert set(named) == installed
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "--help"], capture_output=True, text=True, check=True)
    installs = [rest for word, rest in recipe() if word == "RUN" and "/pip install" in rest]
    assert len(installs) == 2
    for command in installs:
        options = re.findall(r"--[\w-]+", command)
        assert "--no-index" in options and [option for option in options if option not in pip.stdout] == []
    assert "--require-hashes" in installs[0] and "-r /build/run.lock" in installs[0]
    assert (base := dict(recipe())["ARG"]).startswith("BASE=python:")
    assert f">={base.removeprefix('BASE=python:').removesuffix('-slim')}" == project["requires-python"]
    assert dict(recipe())["USER"] == "10001:10001"


def test_the_installation_page_has_the_commands_of_the_recipe():
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    for _, command in (entry for entry in recipe() if entry[0] == "RUN" and "pip install" in entry[1]):
        assert command.replace("/opt/phsafe", "phsafe-env").replace("/build/", "") in page


def test_the_wheelhouse_is_tested_without_an_index(tmp_path, monkeypatch):
    """The commands of the session, in order: download with hashes, build, install from the folder alone, run."""
    sessions, calls = program("noxfile"), []
    monkeypatch.setattr(sessions.venv, "create", lambda *_, **__: None)

    class Session:
        """Replaces nox's own: records commands instead of running them."""

        posargs = (str(tmp_path / "house"),)
        virtualenv = SimpleNamespace(venv_backend="none")
        chdir = staticmethod(contextlib.chdir)

        def run(self, *command, external=False):
            calls.append(" ".join(command))
            if "hatchling" in command:
                (tmp_path / "house").mkdir()
                (tmp_path / "house" / "phsafe-0.2.0-py3-none-any.whl").write_text("")

        def error(self, message):
            raise AssertionError(message)

    sessions.wheelhouse(Session())
    download, build, packages, wheel, *runs = calls
    assert "--require-hashes" in download and "--only-binary=:all:" in download
    assert "build -t wheel" in build
    assert all(f"--no-index --find-links={tmp_path / 'house'}" in step for step in (packages, wheel))
    assert "--require-hashes" in packages and wheel.endswith("phsafe-0.2.0-py3-none-any.whl")
    assert [run.split("/phsafe ")[1].split()[0] for run in runs] == [words[0] for words in sessions.PACKAGE_STEPS]
    with pytest.raises(AssertionError, match="doesn't exist yet"):
        sessions.wheelhouse(Session())


def test_the_wheel_is_reproducible(tmp_path):
    """Build copies of the sources in different folders, with different times and modes but one SOURCE_DATE_EPOCH."""
    built = []
    for name, mask in (("here", 0o022), ("there", 0o077)):
        copy = tmp_path / name
        shutil.copytree(
            ROOT / "src",
            copy / "src",
            copy_function=shutil.copy,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, copy)
        if name == "there":
            for path in copy.rglob("*"):
                os.utime(path, (10**9, 10**9))
                path.chmod(0o700 if path.is_dir() else 0o664)
        old = os.umask(mask)
        try:
            subprocess.run(
                [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=copy, check=True, capture_output=True,
                env=os.environ | {"SOURCE_DATE_EPOCH": "1600000000"},
            )  # fmt: skip
        finally:
            os.umask(old)
        built += list((copy / "dist").iterdir())
    assert [wheel.suffix for wheel in built] == [".whl", ".whl"]
    assert built[0].read_bytes() == built[1].read_bytes()
