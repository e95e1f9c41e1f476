"""A release folder: manifest and noisy counts, also of older formats, read and checked without access to the data.

A release is public. Nothing in its folder depends on the data, except the noisy COUNT columns and the hashes of the
files that contain them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import with_names
from phsafe.display.frames import Frames
from phsafe.errors import OutputError, PHSafeError, did_you_mean
from phsafe.model.catalog_changes import catalog_changes
from phsafe.model.document_files import parse_json
from phsafe.model.spec import Catalog, Derived, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.releases.file_layout import SEPARATOR, key_columns, table_path
from phsafe.releases.manifest import FORMAT, FORMAT_1, MANIFEST, MAX_BYTES, MAX_VALUES, is_too_large
from phsafe.system.public_calls import checked

if TYPE_CHECKING:
    from phsafe.privacy.budgets import Budget

VALUES = ("COUNT", "NOISE_DISTRIBUTION", "VARIANCE")


@dataclass(frozen=True)
class Release(Frames):
    """A release: the published noisy measurements, the config behind them, and their privacy loss.

    `Release.open` opens a release folder; `phsafe.release` creates one and returns it opened.

    Attributes:
        path: The release folder.
        config: The config of the release.
        manifest: The content of `manifest.json`: parameters, privacy statement, variances and hashes.

    Example:
        >>> release = phsafe.Release.open(home / "release")
        >>> release.tables
        ('PH1', 'PH2', 'PH3', 'PH4', 'PH5', 'PH6')
        >>> float(release.budget.loss.unbounded)
        1.073554
    """

    path: Path
    config: Config
    manifest: Mapping[str, Any]

    @classmethod
    @checked
    def open(cls, path: str | Path, *, force: bool = False) -> Release:
        """Open a release folder and verify that it is complete and unmodified.

        The folder is enough: the tables and levels come from its manifest.

        Args:
            path: The release folder.
            force: Skip verification, for example to look into a damaged folder. The manifest must still be readable.

        Returns:
            The opened release.

        Raises:
            OutputError: If the folder is not a release, or if verification fails; with all problems found.

        Example:
            >>> phsafe.Release.open(home / "release")  # doctest: +ELLIPSIS
            Release('release', release_id='...')
        """
        from phsafe.releases.verify import problems  # noqa: PLC0415  (imports this module)

        release = cls.read(Path(path))
        found = [] if force else problems(release)
        if found:
            raise OutputError([f"{path}: {problem}" for problem in found])
        return release

    @classmethod
    def read(cls, path: Path) -> Release:
        """Open a release folder from its manifest alone, without verifying its files.

        Args:
            path: The release folder.

        Returns:
            The release, unverified. Use `open` unless you verify it yourself.

        Raises:
            OutputError: If the manifest can't be read or is not that of a release.

        Example:
            >>> phsafe.Release.read(home / "release").release_id == release.release_id
            True
        """
        file = path / MANIFEST
        manifest = _read_manifest(path)
        document = manifest.get("config")
        if not isinstance(document, dict):  # Config.load would take a string as a path.
            raise OutputError(f"{file}: expected the config as a JSON object, got something else")
        given = manifest.get("catalog")
        if manifest["format"] != FORMAT_1 and not isinstance(given, dict):
            raise OutputError(f"{file}: expected the catalog as a JSON object, got something else")
        try:
            catalog = _catalog_of_format_1(document) if manifest["format"] == FORMAT_1 else Catalog.load(given or {})
            config = Config.load(document, catalog)
        except PHSafeError as error:
            raise OutputError([f"{file}: {reason}" for reason in error.reasons]) from None
        return cls(path, config, manifest)

    @property
    def catalog_notes(self) -> tuple[str, ...]:
        """How the tables and levels of the release differ from the 2020 Census tables that PHSafe ships.

        One sentence each; none if they are the same. A release of format 1 doesn't record its catalog.

        Example:
            >>> release.catalog_notes
            ()
        """
        if self.manifest.get("format") == FORMAT_1:
            return ("This release predates the recording of catalogs, so it is read with the built-in catalog.",)
        changes = catalog_changes(self.config.catalog, CENSUS_2020)
        lead = "The catalog of this release differs from the 2020 Census tables that PHSafe ships."
        return (lead, *changes) if changes else ()

    @property
    def release_id(self) -> str:
        """The random id of the release."""
        return str(self.manifest.get("release_id", ""))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that the release has measurements for."""
        names = {output.name for output, _ in self.config.outputs()}
        tables = self.config.catalog.tables
        return tuple(t.name for t in tables if any(o.name in names for o in t.outputs))

    @property
    def budget(self) -> Budget:
        """The privacy loss of the release and the margins of error of its measurements."""
        from phsafe.privacy.budgets import budget  # noqa: PLC0415  (slow to load)

        return budget(self.config)

    def to_polars(self) -> pl.DataFrame:
        """Return all noisy measurements in one frame, with the tabulation name in a first column TABULATION.

        Returns:
            The rows of all tabulations, in the order of the files.

        Raises:
            OutputError: If a file is missing or malformed.

        Example:
            >>> release.to_polars().columns[:3]
            ['TABULATION', 'REGION_ID', 'REGION_TYPE']
        """
        return pl.concat(
            self.measurements(output.name).select(pl.lit(output.name).alias("TABULATION"), pl.all())
            for output, _ in self.config.outputs()
        )

    def __repr__(self) -> str:
        """The folder name and the id. The full path is left out, since notebooks and logs are shared."""
        return f"Release({self.path.name!r}, release_id={self.release_id!r})"

    def _repr_html_(self) -> str:
        from phsafe.display.notebook import release_html  # noqa: PLC0415  (needed in notebooks only)

        return release_html(self)

    def output(self, name: str) -> Tabulation | Derived:
        """Return the specification of a published tabulation.

        Args:
            name: The name of the tabulation, such as "PH1_num".

        Returns:
            The tabulation, measured or derived.

        Raises:
            OutputError: If the release has no such tabulation.

        Example:
            >>> list(release.output("PH2").cells)
            [3, 4, 6, 7, 9, 10, 12, 13]
        """
        for output, _ in self.config.outputs():
            if output.name.casefold() == name.casefold():
                return output
        known = [output.name for output, _ in self.config.outputs()]
        hint = did_you_mean(name, known)
        raise OutputError(f"{self.path}: expected one of {', '.join(known)}, got {name!r:.60}{hint}")

    @checked
    def measurements(self, name: str) -> pl.DataFrame:
        """Read the noisy measurements of one tabulation.

        Args:
            name: The name of the tabulation, such as "PH1_num".

        Returns:
            One row per region, iteration and cell, in the order of the file: REGION_ID, REGION_TYPE, ITERATION_CODE,
            DATA_CELL, COUNT, NOISE_DISTRIBUTION and VARIANCE.

        Raises:
            OutputError: If the release has no such tabulation, or if its file is missing or malformed.

        Example:
            >>> release.measurements("PH2")["NOISE_DISTRIBUTION"].unique().to_list()
            ['Discrete Gaussian']
        """
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
                f"{file}: expected {', '.join(types)} separated by {SEPARATOR}, got no such file or another layout"
            ) from None
        frame = frame.rename({header: name for header, name in keys.items() if header != name})
        if "ITERATION_CODE" not in frame.columns:
            frame = frame.insert_column(2, pl.lit("*").alias("ITERATION_CODE"))
        return frame

    @checked
    def table(self, name: str) -> pl.DataFrame:
        """Read the noisy measurements behind a published table.

        Args:
            name: The name of the table, such as "PH1", in upper or lower case.

        Returns:
            The measurements of all tabulations of the table, with the names of regions (REGION) and of races and
            ethnicities (RACE_ETHNICITY), and the tabulation name in a last column TABULATION.

        Raises:
            OutputError: If the release has no measurements for the table, or if a file is missing or malformed.

        Example:
            >>> release.table("PH1")["TABULATION"].unique().sort().to_list()
            ['PH1_denom', 'PH1_num']
        """
        for table in self.config.catalog.tables:
            if table.name.casefold() == name.casefold():
                outputs = {output.name for output, _ in self.config.outputs()}
                names = [output.name for output in table.outputs if output.name in outputs]
                frames = [self.measurements(n).with_columns(TABULATION=pl.lit(n)) for n in names]
                if frames:
                    return with_names(self.config, pl.concat(frames))
        hint = did_you_mean(name, self.tables)
        raise OutputError(f"{self.path}: expected one of {', '.join(self.tables)}, got {name!r:.60}{hint}")


def _read_manifest(path: Path) -> dict[str, Any]:
    """Parse the manifest of a release folder. Other formats than this version knows are refused."""
    file = path / MANIFEST
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if is_too_large(content):
            raise OutputError(
                f"{file}: expected a manifest of at most {MAX_BYTES} bytes and {MAX_VALUES} values, got a larger file"
            )
        manifest = parse_json(content.decode("utf-8"))
    except OSError:
        hint = _similar_folder(path)
        raise OutputError(f"{path}: expected a release folder with a readable {MANIFEST}, got none{hint}") from None
    except (ValueError, ArithmeticError, RecursionError):
        raise OutputError(f"{file}: expected JSON, but it can't be parsed") from None
    if not isinstance(manifest, dict) or manifest.get("format") not in (FORMAT, FORMAT_1):
        raise OutputError(
            f"{file}: expected a manifest with format {FORMAT} or {FORMAT_1}, got another; "
            "a release of a later format needs a later version of PHSafe"
        )
    return manifest


def _similar_folder(path: Path) -> str:
    """Suggest a release folder beside or inside a folder that isn't one."""
    try:
        known = [str(file.parent) for place in (path.parent, path) for file in place.glob(f"*/{MANIFEST}")]
    except OSError:
        return ""
    return did_you_mean(str(path), known)


def _catalog_of_format_1(config: Mapping[str, Any]) -> Catalog:
    """The tables and levels of the built-in catalog that the config of a release of format 1 names."""
    budgets = config.get("privacy_budget")
    given = budgets if isinstance(budgets, dict) else {}
    keys = {key for levels in given.values() if isinstance(levels, dict) for key in levels}
    tables = tuple(table for table in CENSUS_2020.tables if all(t.name in given for t in table.tabulations))
    levels = tuple(level for level in CENSUS_2020.levels if level.key in keys)
    return Catalog(tables, levels) if tables and levels else CENSUS_2020
