#!/usr/bin/env python3
"""Set up and run, from a bare clone with nothing but Python: `python3 dev.py demo`, `test`, `docs` and more.

Makes its own virtual environment in .venv from the pinned, hashed lists in requirements/. Standard library only.
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
MIN_PYTHON = (3, 11)
#: What may have no line and no branch that no test reaches; and the tests that reach them all. Measuring coverage
#: doubles the time of a test, so the others run without.
COVERED = (
    "src/phsafe/privacy/*",
    "src/phsafe/releasing.py",
    "src/phsafe/scan.py",
    "src/phsafe/counting/*",
)
REACHING = (
    "tests/privacy", "tests/counting", "tests/cli/test_validate.py", "tests/test_releasing.py",
)  # fmt: skip
#: Programs that tests need beside Python packages: what for, command, Debian package.
PROGRAMS = (
    ("browser tests", "chromium", "chromium"),
    ("Spark tests", "java", "openjdk-17-jre-headless"),
    ("network tests", "ip", "iproute2"),
    ("workbook tests", "soffice", "libreoffice-calc"),
)


def main() -> int:
    """Run one task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(TASKS), help="what to do")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="passed on (test: to pytest; demo: to phsafe demo)")
    arguments = parser.parse_args()
    if sys.version_info < MIN_PYTHON:
        print(f"dev.py: expected Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer, got {sys.version.split()[0]}")
        return 1
    return TASKS[arguments.task](arguments.rest)


def demo(rest: list[str]) -> int:
    """Install what the program needs and run its demo."""
    install("run")
    return call([BIN / "phsafe", "demo", *rest])


def test(rest: list[str]) -> int:
    """Install everything, then lint, check types and rooms, and run all tests, the most important with coverage.

    With options or names of tests of your own, pytest runs once, with these.
    """
    install("dev")
    left_out = programs()
    python = BIN / "python"
    pytest = [python, "-m", "pytest", "-n", str(min(4, os.cpu_count() or 1)), *left_out]
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
            [*pytest, "--cov", "--cov-report=", *REACHING],
            [python, "-m", "coverage", "report", f"--include={','.join(COVERED)}", "--fail-under=100"],
            [*pytest, *(f"--ignore={name}" for name in REACHING)],
        ]
    return next((code for check in checks if (code := call(check))), 0)


def lock(rest: list[str]) -> int:
    """Pin the newest versions of everything, with hashes and without addresses (needs uv)."""
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
    """List the licences of everything that is locked in requirements/licences.csv."""
    install("dev")
    return call([BIN / "python", "requirements/inventory.py", "licences", *rest])


def sbom(rest: list[str]) -> int:
    """Write a bill of materials (CycloneDX) of what runs: `python3 dev.py sbom [OUT.json]`."""
    install("dev")
    return call([BIN / "python", "requirements/inventory.py", "sbom", *(rest or ["phsafe.cdx.json"])])


def docs(rest: list[str]) -> int:
    """Build the documentation into site/; a broken link, anchor or code list is an error."""
    install("dev")
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    sphinx = [BIN / "python", "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", ROOT / "build" / "docs"]
    return call([*sphinx, *rest, ROOT / "docs", ROOT / "site"])


def notebooks(rest: list[str]) -> int:
    """Run the notebooks anew and store their outputs."""
    install("dev")
    return call([BIN / "python", ROOT / "docs" / "notebooks" / "execute.py", *rest])


def package(rest: list[str]) -> int:
    """Build wheel and source archive into dist/, and try the wheel in a fresh environment outside the repository."""
    install("dev")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    if code := call([BIN / "python", "-m", "hatchling", "build"]):
        return code
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "env"
        venv.create(fresh, with_pip=True)
        programs = fresh / BIN.name
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        steps = [
            [*pip, "--require-hashes", "-r", ROOT / "requirements" / "run.lock"],
            [*pip, "--no-deps", *(ROOT / "dist").glob("*.whl")],
            *([programs / "phsafe", *words] for words in PACKAGE_STEPS),
        ]
        return next((code for step in steps if (code := call(step, Path(folder)))), 0)


#: What a wheel must be able to do without the repository.
PACKAGE_STEPS = (
    ("demo", "demo"),
    ("release", "demo/config.json", "demo/data", "release", "--ledger", "other.ledger"),
    ("estimate", "release", "tables"),
    ("report", "release", "report.html", "--estimates", "tables"),
    ("check", "release"),
)
TASKS = {
    "demo": demo, "test": test, "docs": docs, "notebooks": notebooks, "package": package,
    "lock": lock, "licences": licences, "sbom": sbom,
}  # fmt: skip


def install(which: str) -> None:
    """Make the virtual environment hold a lock file's packages and this one; nothing happens if it does."""
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
    # The list is complete, so nothing has to be resolved.
    for step in (["--no-deps", "--require-hashes", "-r", pins], ["--no-deps", "--editable", ROOT]):
        if call([*pip, *step]):
            sys.exit(f"dev.py: pip could not install {step[-1]}; it needs the network or a filled pip cache")
    marks.write_text("\n".join([*done, state]))


def programs() -> list[str]:
    """Bring what the tests need by apt-get where that is allowed; else say what is left out, as pytest options."""
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
            print(f"dev.py: leaving out {purpose}: there is no {command}; install the package {package} to run them")
            if os.environ.get("CI"):
                sys.exit("dev.py: in CI nothing may be left out")
            options += [f"--without={command}"]
    return options


def call(command: list[str | Path], folder: Path = ROOT) -> int:
    """Run a command, in the repository unless told otherwise, and return its exit code."""
    print("$", " ".join(str(part).replace(f"{ROOT}/", "") for part in command), flush=True)
    return subprocess.run([str(part) for part in command], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
