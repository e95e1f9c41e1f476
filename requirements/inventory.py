"""Licences and bill of materials: `python requirements/inventory.py licences` and `… sbom OUT.json`.

Reads the locks and the metadata of installed packages; `python3 dev.py licences` and `… sbom` install them first.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
LICENCES = HERE / "licences.csv"
#: Licences approved for runtime dependencies: permissive ones.
APPROVED = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Zlib",
    )
)
#: Licences approved for packages used only to build, test or draw.
APPROVED_DEV = APPROVED | {"CC-PDDC", "MIT-CMU", "MPL-2.0", "LicenseRef-matplotlib"}
#: Licence names of packages without an SPDX expression → SPDX.
SPDX_NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
#: Licences read by a person in the package itself, because its metadata are insufficient or it is for another system.
READ_BY_HAND = {
    "alabaster": "BSD-3-Clause",
    "appnope": "BSD-2-Clause",
    "axe-playwright-python": "MIT AND MPL-2.0",
    "colorama": "BSD-3-Clause",
    "comm": "BSD-3-Clause",
    "contourpy": "BSD-3-Clause",
    "cycler": "BSD-3-Clause",
    "docutils": "CC-PDDC AND BSD-2-Clause AND BSD-3-Clause AND PSF-2.0",
    "ipython-pygments-lexers": "BSD-3-Clause",
    "isodate": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "jupyter-client": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "matplotlib": "LicenseRef-matplotlib",
    "nbclient": "BSD-3-Clause",
    "nbformat": "BSD-3-Clause",
    "nest-asyncio2": "BSD-2-Clause",
    "pexpect": "ISC",
    "prompt-toolkit": "BSD-3-Clause",
    "ptyprocess": "ISC",
    "py4j": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "sphinxcontrib-applehelp": "BSD-2-Clause",
    "sphinxcontrib-devhelp": "BSD-2-Clause",
    "sphinxcontrib-htmlhelp": "BSD-2-Clause",
    "sphinxcontrib-jsmath": "BSD-2-Clause",
    "sphinxcontrib-qthelp": "BSD-2-Clause",
    "sphinxcontrib-serializinghtml": "BSD-2-Clause",
    "traitlets": "BSD-3-Clause",
    "uritemplate": "BSD-3-Clause OR Apache-2.0",
}


def locked(name: str) -> dict[str, list[str]]:
    """The packages of a lock with their versions (several if they depend on the Python version)."""
    found: dict[str, list[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", (HERE / f"{name}.lock").read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


def hashes(name: str) -> dict[str, list[str]]:
    """The SHA-256 of each file that a lock permits, by "package@version"."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (HERE / f"{name}.lock").read_text().strip()):
        package, version = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", entry).groups()
        found[f"{canonicalize_name(package)}@{version}"] = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
    return found


def licence(name: str) -> str:
    """The SPDX expression of a package's licence, or "unknown"."""
    if name in READ_BY_HAND:
        return READ_BY_HAND[name]
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return "unknown"
    classifiers = [c.rpartition(" :: ")[2] for c in stated.get_all("Classifier", []) if c.startswith("License")]
    texts = [stated.get("License-Expression"), stated.get("License"), *classifiers]
    names = [SPDX_NAMES.get(text, text) for text in texts if text]
    if stated.get("License-Expression"):
        return str(stated["License-Expression"])
    return next((text for text in names if text in APPROVED_DEV), "unknown")


def is_approved(expression: str, approved: frozenset[str]) -> bool:
    """Whether every part of an SPDX expression is approved, or one alternative of it."""
    return all(
        any(choice.strip("() ") in approved for choice in part.split(" OR ")) for part in expression.split(" AND ")
    )


def licences() -> str:
    """All locked packages with their purpose and licence, as CSV."""
    runs = locked("run")
    rows = [(name, "run" if name in runs else "extra or dev", licence(name)) for name in sorted(locked("dev"))]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([("PACKAGE", "FOR", "LICENCE"), *rows])
    return out.getvalue()


def sbom() -> dict[str, object]:
    """A CycloneDX bill of materials of the runtime dependencies; the same lock gives the same bytes."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    packages = locked("run")
    files = hashes("run")
    digest = hashlib.sha256((HERE / "run.lock").read_bytes()).hexdigest()
    version = metadata(project["name"])["Version"]
    root = f"pkg:pypi/{project['name']}@{version}"
    references = {name: [f"pkg:pypi/{name}@{version}" for version in versions] for name, versions in packages.items()}
    components = [
        {
            "type": "library", "bom-ref": reference, "name": name, "version": reference.rpartition("@")[2],
            "purl": reference, "licenses": [{"expression": licence(name)}],
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in files[reference.removeprefix("pkg:pypi/")]],
        }
        for name, own in references.items()
        for reference in own
    ]  # fmt: skip
    javascript = bundled()
    needs = {root: [Requirement(text).name for text in project["dependencies"]]} | {
        reference: _needs(name) for name, own in references.items() for reference in own
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": root, "name": project["name"], "version": version,
                "purl": root, "licenses": [{"expression": project["license"]}],
            },
            "properties": [{"name": "phsafe:requirements/run.lock:sha256", "value": digest}],
        },
        "components": [*components, javascript],
        "dependencies": [
            {
                "ref": reference,
                "dependsOn": sorted(
                    {r for name in names for r in references.get(canonicalize_name(name), [])}
                    | ({javascript["bom-ref"]} if reference == root else set())
                ),
            }
            for reference, names in needs.items()
        ],
    }  # fmt: skip


def bundled() -> dict[str, object]:
    """The JavaScript library in the package itself, as a component; its version is in its licence file."""
    name, static = "write-excel-file", HERE.parent / "src" / "phsafe" / "reports" / "static"
    version = re.match(rf"{name} ([\d.]+),", (static / f"{name}.LICENSE.txt").read_text(encoding="utf-8"))
    assert version, f"{name}.LICENSE.txt: expected to begin with the name and version"
    purl = f"pkg:npm/{name}@{version[1]}"
    digest = hashlib.sha256((static / f"{name}.min.js").read_bytes()).hexdigest()
    return {
        "type": "library", "bom-ref": purl, "name": name, "version": version[1], "purl": purl,
        "licenses": [{"expression": "MIT"}], "hashes": [{"alg": "SHA-256", "content": digest}],
    }  # fmt: skip


def _needs(name: str) -> list[str]:
    """The requirements of an installed package, without its extras."""
    try:
        stated = [Requirement(text) for text in requires(name) or []]
    except PackageNotFoundError:
        return []
    return [one.name for one in stated if one.marker is None or one.marker.evaluate({"extra": ""})]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["licences"]:
            LICENCES.write_text(licences(), encoding="utf-8")
        case ["sbom", out]:
            Path(out).write_text(json.dumps(sbom(), indent=1) + "\n", encoding="utf-8")
        case _:
            sys.exit(__doc__)
