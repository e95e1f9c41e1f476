"""A release folder: the manifest and the noisy measurements, read and checked without any sight of the data.

A release is public. Nothing in its folder depends on the data except through the noise in the COUNT columns and the
hashes of those files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe import exact
from phsafe.config import Config
from phsafe.errors import OutputError, PHSafeError
from phsafe.files import SEPARATOR, key_columns, table_path
from phsafe.frames import Frames
from phsafe.privacy.accountant import DEFAULT_DELTA, Account
from phsafe.spec import Catalog, Derived, Tabulation
from phsafe.tables import CENSUS_2020

if TYPE_CHECKING:
    from phsafe.budgets import Budget

MANIFEST = "manifest.json"
FORMAT = "phsafe-release/1"
VALUES = ("COUNT", "NOISE_DISTRIBUTION", "VARIANCE")
NEIGHBOURS = {
    "unbounded": "one person's record is added or removed",
    "bounded": "one person's record is replaced by another",
}
#: A manifest is a few pages; anything larger is not one.
MAX_BYTES = 10_000_000


@dataclass(frozen=True)
class Release(Frames):
    """An opened release: what was published, how, and at which loss.

    `table("PH3")` gives the noisy measurements behind a table as a Polars frame, `measurements("PH1_num")` one file,
    `to_polars()` all of them; `budget` says what the release cost.
    """

    path: Path
    config: Config
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | Path, *, force: bool = False, catalog: Catalog = CENSUS_2020) -> Release:
        """Read a release folder; refuse one that is not whole and untouched, unless forced."""
        from phsafe.folder_check import problems  # noqa: PLC0415  (it reads releases, so it imports this module)

        release = cls.read(Path(path), catalog)
        found = [] if force else problems(release)
        if found:
            raise OutputError([f"{path}: {problem}" for problem in found])
        return release

    @classmethod
    def read(cls, path: Path, catalog: Catalog = CENSUS_2020) -> Release:
        """The manifest of a folder, without looking at its tables."""
        file = path / MANIFEST
        try:
            if file.stat().st_size > MAX_BYTES:
                raise OutputError(f"{file}: expected a manifest, got a file of more than {MAX_BYTES} bytes")
            manifest = json.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
        except OSError:
            raise OutputError(
                f"{path}: expected a release folder with a {MANIFEST}, got none that can be read"
            ) from None
        except (ValueError, RecursionError):
            raise OutputError(f"{file}: expected JSON, but it can't be read as such") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise OutputError(f"{file}: expected a manifest of the form {FORMAT}, got another one")
        document = manifest.get("config")
        if not isinstance(document, dict):  # A text would be taken for the place of a file.
            raise OutputError(f"{file}: expected the config as an object, got something else")
        try:
            config = Config.load(document, catalog)
        except PHSafeError as error:
            raise OutputError([f"{file}: {reason}" for reason in error.reasons]) from None
        return cls(path, config, manifest)

    @property
    def release_id(self) -> str:
        """The random id of this release."""
        return str(self.manifest.get("release_id", ""))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have measurements."""
        names = {output.name for output, _ in self.config.outputs()}
        tables = self.config.catalog.tables
        return tuple(t.name for t in tables if any(o.name in names for o in t.outputs))

    @property
    def budget(self) -> Budget:
        """What the release cost and how accurate its measurements are."""
        from phsafe.budgets import budget  # noqa: PLC0415  (only people who ask for it wait for it)

        return budget(self.config)

    def to_polars(self) -> pl.DataFrame:
        """All measurements in one frame, with the name of its tabulation before each row."""
        return pl.concat(
            self.measurements(output.name).select(pl.lit(output.name).alias("TABULATION"), pl.all())
            for output, _ in self.config.outputs()
        )

    def __repr__(self) -> str:
        """Short, and without the place: it stands in notebooks and logs that others read."""
        return f"Release({self.path.name!r}, release_id={self.release_id!r})"

    def _repr_html_(self) -> str:
        from phsafe.display.notebook import release_html  # noqa: PLC0415  (for notebooks only)

        return release_html(self)

    def output(self, name: str) -> Tabulation | Derived:
        """The published tabulation of that name."""
        for output, _ in self.config.outputs():
            if output.name == name:
                return output
        known = ", ".join(output.name for output, _ in self.config.outputs())
        raise OutputError(f"{self.path}: expected one of {known}, got {name!r}")

    def measurements(self, name: str) -> pl.DataFrame:
        """One tabulation's rows: the grid's keys, COUNT, NOISE_DISTRIBUTION and VARIANCE, in the order of the file."""
        output = self.output(name)
        keys = key_columns(self.config.catalog, output)
        types: dict[str, type[pl.DataType]] = dict.fromkeys(keys, pl.String)
        types |= {
            list(keys)[-1]: pl.Int64,
            "COUNT": pl.Int64,
            "NOISE_DISTRIBUTION": pl.String,
            "VARIANCE": pl.Float64,
        }
        file = self.path / table_path(output)
        try:
            frame = pl.read_csv(file, separator=SEPARATOR, schema=types, truncate_ragged_lines=False, glob=False)
        except (OSError, pl.exceptions.PolarsError):
            raise OutputError(
                f"{file}: expected {', '.join(types)} separated by {SEPARATOR}, got another form"
            ) from None
        frame = frame.rename({header: name for header, name in keys.items() if header != name})
        if "ITERATION_CODE" not in frame.columns:
            frame = frame.insert_column(2, pl.lit("*").alias("ITERATION_CODE"))
        return frame

    def table(self, name: str) -> pl.DataFrame:
        """All measurements behind a published table, one column saying of which tabulation they are."""
        for table in self.config.catalog.tables:
            if table.name == name:
                outputs = {output.name for output, _ in self.config.outputs()}
                names = [output.name for output in table.outputs if output.name in outputs]
                frames = [self.measurements(n).with_columns(TABULATION=pl.lit(n)) for n in names]
                if frames:
                    return pl.concat(frames)
        raise OutputError(f"{self.path}: expected the name of a published table, got {name!r}")


def manifest_of(
    config: Config, account: Account, release_id: str, files: Mapping[str, str], versions: Mapping[str, str]
) -> dict[str, Any]:
    """All that a release says about itself. Nothing here may depend on the data."""
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
            }
            for event in account.events
        ],
        "config": config.to_production(),
        "files": dict(files),
    }  # fmt: skip


def statement(account: Account, config: Config) -> dict[str, Any]:
    """The privacy statement: definition, neighbours, losses, and ε at δ, each rounded up where it is rounded."""
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
        "neighbours": NEIGHBOURS,
        "sensitivity": config.sensitivity,
        name: loss.unbounded,
        f"{name}_bounded": loss.bounded,
        **epsilons,
        "randomness": "OpenDP's exact samplers over the operating system's random numbers; no seed",
    }


def hash_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder."""
    (folder / MANIFEST).write_text(exact.dumps(manifest) + "\n", encoding="utf-8")
