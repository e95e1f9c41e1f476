#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""The project's checks and builds as nox sessions: `nox -l` lists them.

`python3 dev.py …` runs them in .venv, which it sets up. Plain `nox` makes an environment for each session, from the
same locked and hashed requirements, and runs the tests on each Python that pyproject.toml claims and the machine has.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import tomllib
import venv
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"

ROOT = Path(__file__).resolve().parent
CLASSIFIER = "Programming Language :: Python :: "
PYTHONS = [
    name.removeprefix(CLASSIFIER)
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    if name.startswith(CLASSIFIER)
]
RUN_LOCK = "requirements/run.lock"
PIP = ("python", "-m", "pip", "--quiet", "--disable-pip-version-check")
#: Modules that must have full line and branch coverage, and the tests that provide it. Measuring coverage doubles the
#: run time, so the other tests run without it.
COVERED = (
    "src/phsafe/privacy/*",
    "src/phsafe/privacy_math/*",
    "src/phsafe/pipeline/publish.py",
    "src/phsafe/pipeline/release_ledger.py",
    "src/phsafe/pipeline/scan.py",
    "src/phsafe/counting/*",
)
COVERING_TESTS = (
    "tests/privacy",
    "tests/privacy_math",
    "tests/counting",
    "tests/cli/test_validate.py",
    "tests/pipeline",
)
#: Commands that must work from the wheel alone, without the repository.
PACKAGE_STEPS = (
    ("demo", "demo"),
    ("release", "demo/config.json", "demo/data", "release", "--ledger", "other.ledger", "--new-ledger"),
    ("estimate", "release", "tables"),
    ("report", "release", "report.html", "--estimates", "tables"),
    ("check", "release"),
)


def ready(session: nox.Session) -> None:
    """Install the development lock and this package, unless the session runs in an environment that has them."""
    if session.virtualenv.venv_backend != "none":
        session.install("--no-deps", "--require-hashes", "-r", "requirements/dev.lock")
        session.install("--no-deps", "--editable", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, import contracts, workflows and the layout of the repository."""
    ready(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("zizmor", "--offline", "--quiet", "--persona=pedantic", ".github")
    session.run("repo-review", ".")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests, the most critical with coverage; or pytest once, with the options and tests that you pass."""
    ready(session)
    pytest = ("python", "-m", "pytest", "-n", str(min(4, os.cpu_count() or 1)))
    session.env["OPENBLAS_NUM_THREADS"] = "1"  # There is a worker for each core already.
    if session.posargs:
        session.run(*pytest, *session.posargs)
        return
    session.run(*pytest, "--cov", "--cov-report=", *COVERING_TESTS)
    session.run("python", "-m", "coverage", "report", f"--include={','.join(COVERED)}", "--fail-under=100")
    session.run(*pytest, *(f"--ignore={name}" for name in COVERING_TESTS))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/; a broken link, anchor or code list is an error."""
    ready(session)
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    sphinx = ("python", "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", "build/docs")
    session.run(*sphinx, *session.posargs, "docs", "site")


@nox.session(default=False)
def notebooks(session: nox.Session) -> None:
    """Run the notebooks and store their outputs."""
    ready(session)
    session.run("python", "docs/notebooks/execute.py", *session.posargs)


@nox.session
def package(session: nox.Session) -> None:
    """Build the wheel and source archive into dist/, and test the wheel in a fresh environment elsewhere."""
    ready(session)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    session.run("python", "-m", "hatchling", "build")
    try_wheel(session, next((ROOT / "dist").glob("*.whl")))


@nox.session(default=False)
def wheelhouse(session: nox.Session) -> None:
    """Download the runtime packages and build the wheel into a folder, and test it without a network."""
    ready(session)
    folder = Path(session.posargs[0] if session.posargs else ROOT / "wheelhouse").resolve()
    if folder.exists():
        session.error(f"expected a folder that doesn't exist yet, got {folder}")
    # Without source archives, because pip would run their code to read their metadata.
    binary = ("download", "--no-deps", "--only-binary=:all:", "--require-hashes")
    session.run(*PIP, *binary, "-r", RUN_LOCK, "-d", str(folder))
    session.run("python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    try_wheel(session, next(folder.glob("phsafe-*.whl")), "--no-index", f"--find-links={folder}")


def try_wheel(session: nox.Session, wheel: Path, *options: str) -> None:
    """Install the wheel and the locked packages in a fresh environment outside the repository, and run commands."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "env"
        venv.create(fresh, with_pip=True)
        install = (str(fresh / "bin" / "python"), *PIP[1:], "install", "--no-deps", *options)
        session.run(*install, "--require-hashes", "-r", str(ROOT / RUN_LOCK), external=True)
        session.run(*install, str(wheel), external=True)
        with session.chdir(folder):
            for step in PACKAGE_STEPS:
                session.run(str(fresh / "bin" / "phsafe"), *step, external=True)


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin the dependencies, with hashes and without addresses; `-- --upgrade` for the newest versions (needs uv)."""
    for name, options in (("run", ()), ("dev", ("--all-extras", "--group", "dev"))):
        session.run(
            "uv", "pip", "compile", "pyproject.toml", *options, "--universal", "--python-version", "3.11",
            "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet",
            "--output-file", f"requirements/{name}.lock", *session.posargs, external=True,
        )  # fmt: skip


@nox.session(default=False)
def licences(session: nox.Session) -> None:
    """Write the licences of all locked packages to requirements/licences.csv."""
    ready(session)
    session.run("python", "requirements/inventory.py", "licences", *session.posargs)


@nox.session(default=False)
def sbom(session: nox.Session) -> None:
    """Write a bill of materials (CycloneDX) of the runtime dependencies to a file, by default phsafe.cdx.json."""
    ready(session)
    session.run("python", "requirements/inventory.py", "sbom", *(session.posargs or ["phsafe.cdx.json"]))


if __name__ == "__main__":
    nox.main()
