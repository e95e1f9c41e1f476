"""The manifest of a release: format version, parameters, catalog, privacy statement and neighbours, hashes of files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phsafe.configs.config import Config
from phsafe.errors import ConfigError
from phsafe.model import exact_numbers
from phsafe.model.catalog_writer import document_hash
from phsafe.model.spec import Catalog
from phsafe.privacy.accountant import DEFAULT_DELTA, Account, Event

MANIFEST = "manifest.json"
FORMAT = "phsafe-release/2"
#: The format of releases that don't record their catalog. They were made through the built-in one.
FORMAT_1 = "phsafe-release/1"
#: The keys that format 1 doesn't have.
SINCE_FORMAT_2 = ("build", "platform", "catalog", "catalog_sha256")
#: A manifest takes a few pages, or more if it lists the regions of a fine geography.
MAX_BYTES = 50_000_000
#: More values than the largest catalog has. The limit keeps a hostile manifest from using up memory.
MAX_VALUES = 1_000_000
#: Room for the hashes of the files, which are not known until noise is drawn.
HASH_BYTES = 1_000_000
#: What each neighbouring relation means, as a manifest and a report state it.
NEIGHBOUR_DEFINITIONS = {
    "unbounded": "one person's record is added or removed",
    "bounded": "one person's record is replaced by another",
}

#: What losses rest on (see `has_assumptions`), and how those of every mode but the published one are added up.
ASSUMPTIONS = [
    "the geography of an address is public: it doesn't depend on the people who live there",
    "the losses are about one person; a change of a whole household can cost more (docs/privacy.md, P2)",
]
COMPOSITION = "the sum over tabulations; in each, the larger of two sums over its levels (docs/privacy.md, C19)"


def manifest_of(
    config: Config, account: Account, release_id: str, files: Mapping[str, str], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a release. Nothing in it may depend on the data, except the hashes of the noisy files.

    Args:
        config: The config of the release.
        account: The privacy account of its measurements.
        release_id: The random id of the release.
        files: Path within the folder → SHA-256 of the file.
        provenance: What made the release: `versions`, `build` and `platform`.
    """
    catalog = config.catalog.to_document()
    return {
        "format": FORMAT,
        "release_id": release_id,
        "versions": provenance.get("versions"),
        "build": provenance.get("build"),
        "platform": provenance.get("platform"),
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
        "catalog_sha256": document_hash(catalog),
        "catalog": catalog,
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
        **({"assumptions": ASSUMPTIONS} if has_assumptions(config) else {}),
        **({} if config.sensitivity == "published" else {"composition": COMPOSITION}),
        "randomness": "OpenDP's exact samplers over the operating system's random numbers; no seed",
    }


def has_assumptions(config: Config) -> bool:
    """Whether the privacy statement needs public geography: every mode but published, and dropped persons."""
    return config.sensitivity != "published" or config.counts_without_units


def check_readable(config: Config, account: Account) -> None:
    """Refuse a config whose manifest could not be read again. Called before anything is charged.

    Raises:
        ConfigError: The catalog has too much text, too many regions, or keys that can't be distinguished in a file.
    """
    Catalog.load(config.catalog.to_document())
    content = exact_numbers.dumps(manifest_of(config, account, "", {}, {})).encode()
    if is_too_large(content, HASH_BYTES):
        raise ConfigError(
            f"expected a catalog with a manifest of at most {MAX_BYTES - HASH_BYTES} bytes, got {len(content)}; "
            "shorten the names of its regions, or leave some out"
        )


def is_too_large(content: bytes, more: int = 0) -> bool:
    """Whether a manifest is too large to be parsed, with so many bytes more."""
    values = content.count(b",") + content.count(b"[") + content.count(b"{")
    return len(content) + more > MAX_BYTES or values > MAX_VALUES


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest to a release folder."""
    (folder / MANIFEST).write_text(exact_numbers.dumps(manifest) + "\n", encoding="utf-8")
