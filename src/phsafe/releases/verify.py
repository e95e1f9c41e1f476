"""Verification of release folders (`phsafe check`): complete, unmodified and consistent with their config."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from phsafe.configs import grid
from phsafe.errors import PHSafeError
from phsafe.model import exact_numbers
from phsafe.model.spec import Derived, Tabulation
from phsafe.privacy.accountant import Account, noise_by_level, plan
from phsafe.privacy.ledger import Ledger
from phsafe.releases.file_layout import table_path
from phsafe.releases.manifest import FORMAT_1, MANIFEST, SINCE_FORMAT_2, hash_file, manifest_of
from phsafe.releases.release_folder import Release

#: Relative tolerance for variances: the recomputed value may differ from the stored one in the last bit of a sum.
RELATIVE = 1e-12
ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check(release: str | Path, ledger: str | Path | None = None, public_key: str | Path | None = None) -> Release:
    """Check that a folder is a complete, unmodified release, and that a ledger recorded these files.

    Args:
        release: The release folder.
        ledger: The ledger that the release was charged to; without one, only the folder is checked.
        public_key: The ledger's public key; by default the file beside it.

    Returns:
        The release.

    Raises:
        PHSafeError: The folder is not an intact release, or the ledger contradicts it; lists every problem.

    Example:
        >>> phsafe.check(home / "release").release_id == release.release_id
        True
    """
    opened = Release.open(release)
    if ledger is not None:
        found = ledger_problems(opened, Path(ledger), None if public_key is None else Path(public_key))
        if found:
            raise PHSafeError([f"{release}: {problem}" for problem in found])
    return opened


def problems(release: Release) -> list[str]:
    """Return all problems of a release folder; an empty list if it is intact."""
    planned = plan(release.config)
    return [
        *_file_problems(release),
        *_manifest_problems(release, planned),
        *_table_problems(release, noise_by_level(planned)),
    ]


def ledger_problems(release: Release, path: Path, public_key: Path | None = None) -> list[str]:
    """Return everything that contradicts a ledger's signed entries about a release; an empty list if nothing does.

    The manifest could be rewritten together with the files that it describes; a signed entry could not.

    Args:
        release: An opened release.
        path: The ledger.
        public_key: The ledger's public key; by default the file beside it.
    """
    ledger = Ledger(path)
    found = ledger.verify(public_key=public_key)
    if found:
        return [f"the ledger {path} can't be trusted: {problem}" for problem in found]
    charge = next((c for c in ledger.charges() if c.release_id == release.release_id), None)
    if charge is None:
        return [
            f"expected an entry for its id {release.release_id} in {path}, got none: "
            "this is the ledger of another population, or an older copy"
        ]
    if charge.files is None:
        return [f"the ledger {path} has charged it, but has no hashes of its files: it was charged but never finished"]
    total = plan(release.config).total
    loss = [] if charge.loss == total else ["its loss is not the one that was charged"]
    now = {name: hash_file(release.path / name) for name in charge.files if (release.path / name).is_file()}
    changed = sorted(name for name, digest in charge.files.items() if now.get(name) != digest)
    return [*loss, *(f"{name} is not the file that the ledger recorded" for name in changed)]


def _file_problems(release: Release) -> Iterator[str]:
    expected = {str(table_path(output)) for output, _ in release.config.outputs()}
    found = set()
    for root, _, names in os.walk(release.path):
        found |= {str((Path(root) / name).relative_to(release.path)) for name in names}
    for name in sorted(expected - found):
        yield f"{name} is missing"
    extra = len(found - expected - {MANIFEST})
    if extra:
        yield f"expected only the manifest and the files of its config, got {extra} more; remove the others"
    hashes = release.manifest.get("files")
    if not isinstance(hashes, dict) or set(hashes) != expected:
        yield "the manifest doesn't list exactly the files that its config produces"
        return
    for name in sorted(expected & found):
        if hash_file(release.path / name) != hashes[name]:
            yield f"{name} was changed: its hash differs from the manifest"


def _manifest_problems(release: Release, planned: Account) -> Iterator[str]:
    """Compare the manifest with its config and catalog.

    What made the release and its random id can't be verified and are taken as stated.
    """
    given = release.manifest
    expected = _read_back(manifest_of(release.config, planned, release.release_id, {}, {}))
    if given["format"] == FORMAT_1:
        expected = {key: value for key, value in expected.items() if key not in SINCE_FORMAT_2}
    for key in ("catalog", "catalog_sha256"):
        if key in expected and given.get(key) != expected[key]:
            yield f"{key} in the manifest doesn't match its tables and levels"
    if not isinstance(given.get("privacy"), dict):
        yield "the manifest has no privacy statement"
    else:
        if set(given["privacy"]) - set(expected["privacy"]):
            yield "the privacy statement contains more than its config implies"
        for name, value in expected["privacy"].items():
            if not _same(given["privacy"].get(name), value):
                yield f"{name} in the privacy statement doesn't match the config"
    if not _same(given.get("levels"), expected["levels"]):
        yield "the levels in the manifest don't match the config"
    if set(given) != set(expected) or not ID.fullmatch(release.release_id):
        yield "the manifest lacks a key, has one too many, or has an invalid release_id"


def _table_problems(release: Release, noise: grid.NoiseOf) -> Iterator[str]:
    for output, _ in release.config.outputs():
        if not (release.path / table_path(output)).is_file():
            continue
        try:
            frame = release.measurements(output.name)
        except PHSafeError as error:
            yield from error.reasons
            continue
        yield from _rows_problems(release, output, frame, noise)


def _rows_problems(
    release: Release, output: Tabulation | Derived, frame: pl.DataFrame, noise: grid.NoiseOf
) -> Iterator[str]:
    file = table_path(output)
    # Counted first: a hostile manifest could ask for a grid that fills the memory.
    if grid.size(release.config, output) != frame.height:
        yield f"{file}: the rows don't match the grid of the config, in its order"
        return
    expected = grid.output_frame(release.config, output, noise=noise)
    keys = list(grid.KEYS)
    if not frame.select(keys).equals(expected.select(keys)):
        yield f"{file}: the rows don't match the grid of the config, in its order"
        return
    if frame["COUNT"].null_count():
        yield f"{file}: expected a whole number in every COUNT, but some have none"
    if not frame["NOISE_DISTRIBUTION"].equals(expected["NOISE_DISTRIBUTION"]):
        yield f"{file}: NOISE_DISTRIBUTION doesn't match the config"
    variance, right = frame["VARIANCE"], expected["VARIANCE"]
    if variance.null_count() or not ((variance - right).abs() <= RELATIVE * right).all():
        yield f"{file}: VARIANCE doesn't match the config"


def _read_back(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest after a round trip through JSON."""
    document: dict[str, Any] = json.loads(exact_numbers.dumps(manifest), parse_float=Decimal)
    return document


def _same(given: object, right: object) -> bool:
    """Whether two documents are equal, up to rounding in the last bits of computed numbers."""
    if isinstance(right, dict) and isinstance(given, dict):
        return set(given) == set(right) and all(_same(given[name], value) for name, value in right.items())
    if isinstance(right, list) and isinstance(given, list):
        return len(given) == len(right) and all(map(_same, given, right))
    return given == right or (isinstance(right, Decimal) and _close(given, float(right)))


def _close(given: object, value: float) -> bool:
    if not isinstance(given, int | Decimal):  # Manifests are parsed with exact decimals.
        return False
    try:
        return abs(float(given) - value) <= RELATIVE * abs(value)
    except OverflowError:
        return False
