"""What made a release: versions of the package (and its commit), libraries that counted or drew noise, Python, system.

Nothing here depends on the data, and nothing names a path, a user or a host.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from base64 import urlsafe_b64encode
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
COUNTED_BY = {"duckdb": "duckdb", "spark": "pyspark"}
LIBRARIES = ("numpy", "opendp", "polars", "pyarrow")
COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def made_with(engine: str) -> dict[str, Any]:
    """Return what makes a release now, as the manifest records it.

    Args:
        engine: The engine that counts, "duckdb" or "spark".

    Returns:
        `versions` of the package and of the libraries that count and draw noise; `build`: the commit of the package if
        it is known, and the hash of its files; `platform`: Python, operating system and engine.
    """
    return {
        "versions": {name: _version(name) for name in ("phsafe", COUNTED_BY[engine], *LIBRARIES)},
        "build": {"commit": commit(PACKAGE), "files_sha256": files_hash(PACKAGE)},
        "platform": {
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "system": platform.system(),
            "engine": engine,
        },
    }


def _version(name: str) -> str | None:
    """The version of an installed package; None if only its code is there, as with PySpark's client packages."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit(package: Path) -> str | None:
    """The commit of a package: of the git checkout that it is in, or of the repository that it was installed from."""
    root = package.parents[1]
    if package.parent.name == "src" and (root / ".git").exists():
        return _checked_out(root / ".git")
    try:
        installed = distribution(package.name)
        source = json.loads(installed.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError, OSError):
        return None
    found = source.get("vcs_info", {}).get("commit_id") if isinstance(source, dict) else None
    return found if isinstance(found, str) and COMMIT.fullmatch(found) else None


def _checked_out(git: Path) -> str | None:
    """The commit that a git folder has checked out, or None if it is stored in an unknown way. Runs nothing."""
    try:
        if git.is_file():  # A worktree: the file names its folder, which names the one that all worktrees share.
            git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        shared = git / (git / "commondir").read_text(encoding="utf-8").strip() if (git / "commondir").exists() else git
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        name = head.removeprefix("ref:").strip()
        places = [folder / name for folder in (git, shared)] if name != head else []
        found = next((place.read_text(encoding="utf-8").strip() for place in places if place.is_file()), head)
        if not COMMIT.fullmatch(found) and (shared / "packed-refs").exists():
            lines = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
            found = next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
    except (OSError, ValueError):
        return None
    return found if COMMIT.fullmatch(found) else None


def files_hash(package: Path) -> str:
    """The SHA-256 of the lines that a wheel's RECORD has for the files of a package, sorted.

    It is computed from the files as they are, so it identifies code with local changes too.
    """
    lines = []
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path.relative_to(package.parent).as_posix()},sha256={digest},{len(content)}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
