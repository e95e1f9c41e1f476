"""The wheel works without the repository: a fresh environment runs every step of a release.

The fresh environment borrows this one's dependencies through a path file, so nothing is downloaded; `python3 dev.py
package` does the same with the pinned dependencies installed.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_wheel_contains_the_package_and_all_its_data(dist):
    (wheel,) = dist.glob("*.whl")
    source = ROOT / "src"
    files = [path for path in (source / "phsafe").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    names = set(ZipFile(wheel).namelist())
    assert {str(path.relative_to(source)) for path in files} <= names
    assert {"phsafe/py.typed", "phsafe/configs/parameters/us.json"} <= names
    assert not [name for name in names if not name.startswith("phsafe")]


def test_the_source_archive_is_enough_to_build_and_test(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    needed = {
        "pyproject.toml",
        "dev.py",
        "noxfile.py",
        ".github/workflows/ci.yml",
        "README.md",
        "CITATION.cff",
        "tests/conftest.py",
        "docs/conf.py",
    }
    assert needed | {"requirements/dev.lock", "examples/us.json"} <= names


def test_an_unpacked_source_archive_keeps_its_version(dist, tmp_path):
    """Versions come from tags, which an archive hasn't; it states its own."""
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "version"]
    stated = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    assert folder.name == f"phsafe-{stated}"
    (folder / "PKG-INFO").unlink()
    without = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    assert without.endswith(".dev0"), "the fallback of pyproject.toml"


def test_the_wheel_runs_without_the_repository(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    fresh = tmp_path / "env"
    venv.create(fresh)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(fresh), "platbase": str(fresh)}))
    # A plain path, not a site folder, so that this environment's editable install of the repository isn't seen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(fresh),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(pip, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(fresh / "bin" / command[0]), *command[1:]], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    where = run("python", "-c", "import phsafe; print(phsafe.__file__)")
    assert Path(where.strip()).is_relative_to(fresh)
    run("phsafe", "demo", "demo")
    config = json.loads((tmp_path / "demo" / "config.json").read_text())
    for name, levels in config["privacy_budget"].items():
        # One table is enough here, and fast.
        levels.update({} if name == "PH7" else dict.fromkeys(levels, 0))
    (tmp_path / "config.json").write_text(json.dumps(config))
    run("phsafe", "release", "config.json", "demo/data", "release", "--ledger", "other.ledger", "--new-ledger")
    run("phsafe", "estimate", "release", "tables")
    run("phsafe", "report", "release", "report.html", "--estimates", "tables")
    assert "complete and unmodified" in run("phsafe", "check", "release")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
