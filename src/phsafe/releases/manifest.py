"""The manifest of a release: its parameters, its privacy statement, and the hashes of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phsafe.configs.config import Config
from phsafe.model import exact_numbers
from phsafe.privacy.accountant import DEFAULT_DELTA, Account, Event

MANIFEST = "manifest.json"
FORMAT = "phsafe-release/1"
#: What each neighbouring relation means, as a manifest and a report state it.
NEIGHBOUR_DEFINITIONS = {
    "unbounded": "one person's record is added or removed",
    "bounded": "one person's record is replaced by another",
}

#: What the losses of every mode but the published one rest on, and how they are added up.
ASSUMPTIONS = [
    "the geography of an address is public: it doesn't depend on the people who live there",
    "the losses are about one person; a change of a whole household can cost more (docs/privacy.md, P2)",
]
COMPOSITION = "the sum over tabulations; in each, the larger of two sums over its levels (docs/privacy.md, C19)"


def manifest_of(
    config: Config, account: Account, release_id: str, files: Mapping[str, str], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the manifest of a release. Nothing in it may depend on the data, except the hashes of the noisy files.

    Args:
        config: The config of the release.
        account: The privacy account of its measurements.
        release_id: The random id of the release.
        files: Path within the folder → SHA-256 of the file.
        versions: Package name → version that created the release.
    """
    return {
        "format": FORMAT,
        "release_id": release_id,
        "versions": dict(versions),
        "privacy": statement(account, config),
        "levels": [
            {
                "tabulation": event.tabulation, "level": event.level, "tau": event.tau,
                "budget": event.stated, "loss": event.loss.unbounded, "loss_bounded": event.loss.bounded,
                "distribution": event.noise.distribution, "variance": event.noise.variance,
                **({} if config.sensitivity != "structured" else {"blocks": _blocks(event)}),
            }
            for event in account.events
        ],
        "config": config.to_production(),
        "files": dict(files),
    }  # fmt: skip


def _blocks(event: Event) -> list[dict[str, Any]]:
    """The blocks of a level: which cells are measured together, and which without the unit table."""
    return [
        {
            "cells": list(one.block.cells), "without_units": one.block.is_blind, "budget": one.stated,
            "variance": one.noise.variance,
        }
        for one in event.blocks
    ]  # fmt: skip


def statement(account: Account, config: Config) -> dict[str, Any]:
    """The privacy statement: definition, neighbours, losses, and ε at δ. Rounded figures are rounded up."""
    loss, name = account.total, "rho" if config.privacy == "zcdp" else "epsilon"
    epsilons = (
        {"epsilon": loss.epsilon(), "epsilon_bounded": loss.epsilon_bounded(), "delta": DEFAULT_DELTA}
        if config.privacy == "zcdp"
        else {}
    )
    return {
        "definition": "zero-concentrated differential privacy"
        if config.privacy == "zcdp"
        else "pure differential privacy",
        "neighbours": NEIGHBOUR_DEFINITIONS,
        "sensitivity": config.sensitivity,
        name: loss.unbounded,
        f"{name}_bounded": loss.bounded,
        **epsilons,
        **({} if config.sensitivity == "published" else {"assumptions": ASSUMPTIONS, "composition": COMPOSITION}),
        "randomness": "OpenDP's exact samplers over the operating system's random numbers; no seed",
    }


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest to a release folder."""
    (folder / MANIFEST).write_text(exact_numbers.dumps(manifest) + "\n", encoding="utf-8")
