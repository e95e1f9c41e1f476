"""Dependencies are pinned, licensed and listed, and the wheel is reproducible."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
    assert {component["purl"] for component in bom["components"]} == locked
    assert all(component["licenses"] != [{"expression": "unknown"}] for component in bom["components"])
    nodes = {node["ref"]: node["dependsOn"] for node in bom["dependencies"]}
    assert nodes.keys() - locked == {bom["metadata"]["component"]["bom-ref"]}
    reached, todo = set(), [bom["metadata"]["component"]["bom-ref"]]
    while todo:
        reference = todo.pop()
        reached.add(reference)
        todo += [one for one in nodes[reference] if one not in reached]
    assert any(one.startswith("pkg:pypi/opendp@") for one in reached)
    assert len(reached) > 0.8 * len(locked)
    assert json.dumps(bom) == json.dumps(inventory.sbom())


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
