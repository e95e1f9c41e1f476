#!/usr/bin/env python3
"""Development tasks that need nothing but Python: `python3 dev.py demo`, `test`, `docs` and more.

Creates a virtual environment in .venv from the pinned and hashed requirements. Uses only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
RUN_LOCK = ROOT / "requirements" / "run.lock"
MIN_PYTHON = (3, 11)
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
#: Programs that tests need besides Python packages: purpose, command, Debian package.
PROGRAMS = (
    ("browser tests", "chromium", "chromium"),
    ("Spark tests", "java", "openjdk-17-jre-headless"),
    ("network tests", "ip", "iproute2"),
    ("workbook tests", "soffice", "libreoffice-calc"),
)


def main() -> int:
    """Run one task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(TASKS), help="the task to run")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="passed on (test: to pytest; demo: to phsafe demo)")
    arguments = parser.parse_args()
    if sys.version_info < MIN_PYTHON:
        print(f"dev.py: expected Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer, got {sys.version.split()[0]}")
        return 1
    return TASKS[arguments.task](arguments.rest)


def demo(rest: list[str]) -> int:
    """Install the dependencies and run the demo."""
    install("run")
    return call([BIN / "phsafe", "demo", *rest])


def test(rest: list[str]) -> int:
    """Install everything; check lint, types and import contracts; run all tests, the most critical with coverage.

    If you pass options or tests, pytest runs once with exactly these.
    """
    install("dev")
    skipped = programs()
    python = BIN / "python"
    pytest = [python, "-m", "pytest", "-n", str(min(4, os.cpu_count() or 1)), *skipped]
    checks = [
        [python, "-m", "ruff", "check", "."],
        [python, "-m", "ruff", "format", "--check", "."],
        [python, "-m", "mypy"],
        [BIN / "lint-imports"],
    ]
    if rest:
        checks.append([*pytest, *rest])
    else:
        checks += [
            [*pytest, "--cov", "--cov-report=", *COVERING_TESTS],
            [python, "-m", "coverage", "report", f"--include={','.join(COVERED)}", "--fail-under=100"],
            [*pytest, *(f"--ignore={name}" for name in COVERING_TESTS)],
        ]
    return next((code for check in checks if (code := call(check))), 0)


def lock(rest: list[str]) -> int:
    """Pin the newest version of every dependency, with hashes and without addresses (needs uv)."""
    for name, options in (("run", []), ("dev", ["--all-extras", "--group", "dev"])):
        code = call(
            [
                "uv", "pip", "compile", "pyproject.toml", *options, "--universal", "--python-version", "3.11",
                "--upgrade", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet",
                "--output-file", f"requirements/{name}.lock", *rest,
            ]
        )  # fmt: skip
        if code:
            return code
    return 0


def licences(rest: list[str]) -> int:
    """Write the licences of all locked packages to requirements/licences.csv."""
    install("dev")
    return call([BIN / "python", "requirements/inventory.py", "licences", *rest])


def sbom(rest: list[str]) -> int:
    """Write a bill of materials (CycloneDX) of the runtime dependencies: `python3 dev.py sbom [OUT.json]`."""
    install("dev")
    return call([BIN / "python", "requirements/inventory.py", "sbom", *(rest or ["phsafe.cdx.json"])])


def docs(rest: list[str]) -> int:
    """Build the documentation into site/; a broken link, anchor or code list is an error."""
    install("dev")
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    sphinx = [BIN / "python", "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", ROOT / "build" / "docs"]
    return call([*sphinx, *rest, ROOT / "docs", ROOT / "site"])


def notebooks(rest: list[str]) -> int:
    """Run the notebooks and store their outputs."""
    install("dev")
    return call([BIN / "python", ROOT / "docs" / "notebooks" / "execute.py", *rest])


def package(rest: list[str]) -> int:
    """Build the wheel and source archive into dist/, and test the wheel in a fresh environment elsewhere."""
    install("dev")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    return call([BIN / "python", "-m", "hatchling", "build"]) or try_wheel(next((ROOT / "dist").glob("*.whl")))


def wheelhouse(rest: list[str]) -> int:
    """Download the runtime packages and build the wheel into a folder, and test it without a network.

    `python3 dev.py wheelhouse [FOLDER]`; the folder (default: wheelhouse/) must not exist yet.
    """
    install("dev")
    folder = Path(rest[0] if rest else ROOT / "wheelhouse").resolve()
    if folder.exists():
        print(f"dev.py: expected a folder that doesn't exist yet, got {folder}")
        return 1
    pip = [BIN / "python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    steps = [
        # Without source archives, because pip would run their code to read their metadata.
        [*pip, "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", RUN_LOCK, "-d", folder],
        [BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
    ]
    code = next((code for step in steps if (code := call(step))), 0)
    return code or try_wheel(next(folder.glob("phsafe-*.whl")), "--no-index", f"--find-links={folder}")


def try_wheel(wheel: Path, *options: str) -> int:
    """Install the wheel and the locked packages in a fresh environment outside the repository, and run commands."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "env"
        venv.create(fresh, with_pip=True)
        programs = fresh / BIN.name
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
        steps = [
            [*pip, "--no-deps", "--require-hashes", "-r", RUN_LOCK],
            [*pip, "--no-deps", wheel],
            *([programs / "phsafe", *arguments] for arguments in PACKAGE_STEPS),
        ]
        return next((code for step in steps if (code := call(step, Path(folder)))), 0)


#: Commands that must work from the wheel alone, without the repository.
PACKAGE_STEPS = (
    ("demo", "demo"),
    ("release", "demo/config.json", "demo/data", "release", "--ledger", "other.ledger", "--new-ledger"),
    ("estimate", "release", "tables"),
    ("report", "release", "report.html", "--estimates", "tables"),
    ("check", "release"),
)
TASKS = {
    "demo": demo, "test": test, "docs": docs, "notebooks": notebooks, "package": package,
    "wheelhouse": wheelhouse, "lock": lock, "licences": licences, "sbom": sbom,
}  # fmt: skip


def install(which: str) -> None:
    """Install a lock file's packages and this one into the virtual environment, unless already done."""
    pins = ROOT / "requirements" / f"{which}.lock"
    state = hashlib.sha256(pins.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    marks = VENV / "phsafe-installed"
    done = marks.read_text().split() if marks.exists() else []
    if state in done:
        return
    print(f"dev.py: installing {pins.relative_to(ROOT)} into {VENV.name} (once)", flush=True)
    if not (BIN / "python").exists():
        venv.create(VENV, with_pip=True, clear=True)
    pip = [BIN / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The lock is complete, so there is nothing to resolve.
    for step in (["--no-deps", "--require-hashes", "-r", pins], ["--no-deps", "--editable", ROOT]):
        if call([*pip, *step]):
            sys.exit(f"dev.py: pip could not install {step[-1]}; it needs network access or a filled pip cache")
    marks.write_text("\n".join([*done, state]))


def programs() -> list[str]:
    """Install missing programs with apt-get if permitted; return pytest options that skip what is still missing."""
    options = []
    missing = [entry for entry in PROGRAMS if shutil.which(entry[1]) is None]
    if missing and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
        subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
        names = [package for _, _, package in missing]
        print(f"dev.py: installing {', '.join(names)} with apt-get", flush=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names], check=False, **quiet)
    for purpose, command, package in missing:
        if shutil.which(command) is None:
            print(f"dev.py: skipping {purpose}: {command} not found; install the package {package} to run them")
            if os.environ.get("CI"):
                sys.exit("dev.py: in CI, no tests may be skipped")
            options += [f"--without={command}"]
    return options


def call(command: list[str | Path], folder: Path = ROOT) -> int:
    """Run a command in a folder, by default the repository, and return its exit code."""
    print("$", " ".join(str(part).replace(f"{ROOT}/", "") for part in command), flush=True)
    return subprocess.run([str(part) for part in command], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
