"""The manifest shows what made a release, and nothing of the machine."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from phsafe.releases import provenance
from phsafe.releases.provenance import commit, files_hash, made_with

ROOT = Path(__file__).resolve().parents[2]


def git(folder, *words):
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with a package in it."""
    package = tmp_path / "repository" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(package.parents[1], "init", "--quiet", "--initial-branch", "main")
    git(package.parents[1], "add", ".")
    git(package.parents[1], "commit", "--quiet", "-m", "x")
    return package


def test_versions_platform_and_engine():
    made = made_with("duckdb")
    libraries = ("phsafe", "duckdb", "numpy", "opendp", "polars", "pyarrow")
    assert made["versions"] == {name: version(name) for name in libraries}
    assert made["platform"] == {
        "python": platform.python_version(), "implementation": platform.python_implementation(),
        "system": platform.system(), "engine": "duckdb",
    }  # fmt: skip
    assert made["build"] == {"commit": commit(provenance.PACKAGE), "files_sha256": files_hash(provenance.PACKAGE)}
    assert (ROOT / "src" / "phsafe") == provenance.PACKAGE


def test_spark_is_named_if_it_counts():
    made = made_with("spark")
    assert made["platform"]["engine"] == "spark" and made["versions"]["pyspark"] == version("pyspark")
    assert "duckdb" not in made["versions"]


def test_a_version_that_is_unknown_is_left_out(monkeypatch):
    monkeypatch.setitem(provenance.COUNTED_BY, "spark", "no-such-package")
    assert made_with("spark")["versions"]["no-such-package"] is None


def test_nothing_names_a_path_a_user_or_a_host():
    text = json.dumps(made_with("duckdb"))
    assert "/" not in text and socket.gethostname() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_the_commit_of_a_checkout(checkout, tmp_path):
    root = checkout.parents[1]
    head = git(root, "rev-parse", "HEAD")
    assert commit(checkout) == head
    git(root, "pack-refs", "--all")
    assert not (root / ".git" / "refs" / "heads" / "main").exists() and commit(checkout) == head
    git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "--quiet", "--allow-empty", "-m", "y")
    assert commit(tmp_path / "other" / "src" / "package") == git(tmp_path / "other", "rev-parse", "HEAD") != head
    git(root, "checkout", "--quiet", "--detach")
    assert commit(checkout) == head


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "x" * 40, "\udcff", "ref: ../../../etc/passwd"])
def test_a_commit_stored_in_an_unknown_way_is_left_out(checkout, head):
    (checkout.parents[1] / ".git" / "HEAD").write_bytes(head.encode("utf-8", "surrogateescape"))
    assert commit(checkout) is None


def installed(tmp_path, monkeypatch, direct_url):
    """An installed package with this direct_url.json."""
    package = tmp_path / "site" / "package"
    info = tmp_path / "site" / "package-1.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Name: package\nVersion: 1\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("direct_url", "found"),
    [
        (json.dumps({"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}), COMMIT),
        (json.dumps({"url": "file:///home/someone/x", "dir_info": {"editable": True}}), None),
        (json.dumps({"vcs_info": {"commit_id": "../../home"}}), None),
        ("[]", None),
        ("{", None),
        (None, None),
    ],
)
def test_the_commit_of_an_installed_package(tmp_path, monkeypatch, direct_url, found):
    assert commit(installed(tmp_path, monkeypatch, direct_url)) == found


def test_a_package_that_is_not_installed_has_no_commit(tmp_path):
    assert commit(tmp_path / "site" / "no_such_package") is None


def test_the_hash_of_files_is_that_of_the_wheels_record(tmp_path):
    """Anyone can compare it with a wheel: the lines of RECORD for the package, sorted."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        record = archive.read(name).decode().splitlines()
    lines = sorted(f"{line}\n" for line in record if line.startswith("phsafe/"))
    assert files_hash(provenance.PACKAGE) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_a_changed_file_changes_the_hash(checkout):
    before = files_hash(checkout)
    (checkout / "__pycache__").mkdir()
    (checkout / "__pycache__" / "x.pyc").write_text("x")
    assert files_hash(checkout) == before
    (checkout / "__init__.py").write_text("x = 1\n")
    assert files_hash(checkout) != before
