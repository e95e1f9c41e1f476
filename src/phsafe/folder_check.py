"""`phsafe check`: whether a folder is a whole, untouched release of its own config."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from phsafe import exact, grid
from phsafe.errors import PHSafeError
from phsafe.files import table_path
from phsafe.folder import MANIFEST, Release, hash_file, manifest_of
from phsafe.privacy.accountant import Account, noise_by_level, plan
from phsafe.spec import Derived, Tabulation

#: Variances are printed as shortest floats; both sides compute the same one, and a sum may differ in the last bit.
RELATIVE = 1e-12
ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def problems(release: Release) -> list[str]:
    """Everything that is wrong with a release folder; an empty list if nothing is."""
    planned = plan(release.config)
    return [
        *_file_problems(release),
        *_manifest_problems(release, planned),
        *_table_problems(release, noise_by_level(planned)),
    ]


def _file_problems(release: Release) -> Iterator[str]:
    expected = {str(table_path(output)) for output, _ in release.config.outputs()}
    found = set()
    for root, _, names in os.walk(release.path):
        found |= {str((Path(root) / name).relative_to(release.path)) for name in names}
    for name in sorted(expected - found):
        yield f"{name} is missing"
    extra = len(found - expected - {MANIFEST})
    if extra:
        yield f"{extra} files do not belong to a release"
    hashes = release.manifest.get("files")
    if not isinstance(hashes, dict) or set(hashes) != expected:
        yield "the manifest does not list exactly the files of its config"
        return
    for name in sorted(expected & found):
        if hash_file(release.path / name) != hashes[name]:
            yield f"{name} was changed: its hash is not the manifest's"


def _manifest_problems(release: Release, planned: Account) -> Iterator[str]:
    """What the manifest says that its config does not give. Versions and the random id are its own word."""
    given = release.manifest
    expected = _read_back(manifest_of(release.config, planned, release.release_id, {}, {}))
    if not isinstance(given.get("privacy"), dict):
        yield "the manifest has no privacy statement"
    else:
        for name, value in expected["privacy"].items():
            if not _same(given["privacy"].get(name), value):
                yield f"the privacy statement's {name} is not what the config gives"
    if not _same(given.get("levels"), expected["levels"]):
        yield "the manifest's levels are not what the config gives"
    if set(given) != set(expected) or not ID.fullmatch(release.release_id):
        yield "the manifest does not hold exactly what a release's does"


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
    expected = grid.output_frame(release.config, output, noise=noise)
    keys = list(grid.KEYS)
    if not frame.select(keys).equals(expected.select(keys)):
        yield f"{file}: the rows are not the grid of the config, in its order"
        return
    if frame["COUNT"].null_count():
        yield f"{file}: COUNT holds something else than whole numbers"
    if not frame["NOISE_DISTRIBUTION"].equals(expected["NOISE_DISTRIBUTION"]):
        yield f"{file}: NOISE_DISTRIBUTION is not what the config gives"
    variance, right = frame["VARIANCE"], expected["VARIANCE"]
    if variance.null_count() or not ((variance - right).abs() <= RELATIVE * right).all():
        yield f"{file}: VARIANCE is not what the config gives"


def _read_back(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as it reads when it was written."""
    document: dict[str, Any] = json.loads(exact.dumps(manifest), parse_float=Decimal)
    return document


def _same(given: object, right: object) -> bool:
    """Whether two documents are equal, up to the last bits of computed numbers."""
    if isinstance(right, dict) and isinstance(given, dict):
        return set(given) == set(right) and all(_same(given[name], value) for name, value in right.items())
    if isinstance(right, list) and isinstance(given, list):
        return len(given) == len(right) and all(map(_same, given, right))
    return given == right or (isinstance(right, Decimal) and _close(given, float(right)))


def _close(given: object, value: float) -> bool:
    if not isinstance(given, int | Decimal):  # Manifests are read with exact decimals.
        return False
    try:
        return abs(float(given) - value) <= RELATIVE * abs(value)
    except OverflowError:
        return False
