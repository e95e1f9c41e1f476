#!/usr/bin/env python3
"""Set up .venv and run a task in it: `python3 dev.py demo`, `test`, `docs` and more. Needs nothing but Python.

The environment has the pinned and hashed requirements. Tasks other than demo and system are sessions of noxfile.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
MIN_PYTHON = (3, 11)
#: Task → the nox sessions that it runs.
TASKS = {
    "test": ("lint", "tests"),
    **{name: (name,) for name in ("lint", "docs", "notebooks", "package", "wheelhouse", "lock", "licences", "sbom")},
}
#: Programs that tests need besides Python packages: purpose, command, Debian package.
PROGRAMS = (
    ("browser tests", "chromium", "chromium"),
    ("Spark tests", "java", "openjdk-17-jre-headless"),
    ("network tests", "ip", "iproute2"),
    ("workbook tests", "soffice", "libreoffice-calc"),
)


def main() -> int:
    """Run one task."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-system", action="store_true", help="install no system programs; leave out their tests")
    parser.add_argument("task", choices=["demo", "system", *TASKS], help="the task to run")
    options, rest = parser.parse_known_args()
    if os.name != "posix" or sys.version_info < MIN_PYTHON:
        needed = f"a POSIX system (Linux, macOS) and Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer"
        print(f"dev.py: expected {needed}, got {sys.platform} and Python {sys.version.split()[0]}")
        return 1
    if options.task == "system":
        return int(bool(missing(install=True)))
    if options.task == "demo":
        set_up("run")
        return call([BIN / "phsafe", "demo", *rest], os.environ)
    set_up("dev")
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    if options.task == "test":
        left_out = [f"--without={command}" for command in missing(install=not options.no_system)]
        environment["PYTEST_ADDOPTS"] = " ".join([*left_out, os.environ.get("PYTEST_ADDOPTS", "")]).strip()
    nox = [BIN / "python", "-m", "nox", "--no-venv", "--stop-on-first-error", "-s", *TASKS[options.task]]
    return call([*nox, "--", *rest], environment)


def set_up(which: str) -> None:
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
        if call([*pip, *step], os.environ):
            sys.exit(f"dev.py: pip could not install {step[-1]}; it needs network access or a filled pip cache")
    marks.write_text("\n".join([*done, state]))


def missing(*, install: bool) -> list[str]:
    """The programs that tests need and the machine lacks; with install, after apt-get has tried to install them."""
    wanted = [entry for entry in PROGRAMS if shutil.which(entry[1]) is None]
    if wanted and install and os.geteuid() == 0 and shutil.which("apt-get"):
        listed = ", ".join(f"{package} ({purpose})" for purpose, _, package in wanted)
        print(
            f"dev.py: installing with apt-get: {listed}; to leave these out: python3 dev.py --no-system test",
            flush=True,
        )
        quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
        packages = [package for _, _, package in wanted]
        subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], check=False, **quiet)
    left_out = [entry for entry in wanted if shutil.which(entry[1]) is None]
    for purpose, command, package in left_out:
        print(
            f"dev.py: leaving out {purpose}: {command} not found; install the package {package} to run them", flush=True
        )
    if left_out and os.environ.get("CI"):
        sys.exit("dev.py: in CI, no tests may be left out")
    return [command for _, command, _ in left_out]


def call(command: list[str | Path], environment: dict[str, str]) -> int:
    """Run a command in the repository and return its exit code."""
    print("$", " ".join(str(part).replace(f"{ROOT}/", "") for part in command), flush=True)
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
