"""`phsafe registry`: an entry for the OpenDP registry of deployments, filled in from a release.

The entry follows the registry's own template (opendp/deployments-registry-data). What a release doesn't record (who
publishes it, why, and how its parameters were chosen) becomes a text that starts with TODO unless the caller
supplies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from phsafe.configs.names import coverage, nation
from phsafe.display.html import printable
from phsafe.errors import PHSafeError, Reasons
from phsafe.model.exact_numbers import round_up
from phsafe.privacy.budgets import MODE_CAVEAT, MODE_NOTES, Budget, budget
from phsafe.releases.manifest import COMPOSITION, has_assumptions
from phsafe.releases.release_folder import Release
from phsafe.reports.privacy_statement import MECHANISMS, amount
from phsafe.reports.yaml_writer import dump
from phsafe.system.atomic_writes import check_new_file, write_new_file

TODO = "TODO: "
VARIANTS = {"zcdp": "Zero-concentrated DP", "puredp": "Pure DP"}
SYMBOLS = {"zcdp": r"\\(\rho\\)", "puredp": r"\\(\varepsilon\\)"}
#: The most characters in an answer: about a paragraph.
MAX_CHARACTERS = 2000
CURATOR_TYPES = ("Government", "Industry", "Nonprofit")


@dataclass(frozen=True)
class Answers:
    """What only the publisher knows; an empty answer becomes a TODO."""

    name: str = ""
    curator: str = ""
    curator_type: str = ""
    intended_use: str = ""
    publication_date: str = ""
    author: str = ""

    def check(self) -> None:
        """Raise PHSafeError if the registry would reject an answer."""
        problems = []
        if self.curator_type and self.curator_type not in CURATOR_TYPES:
            problems.append(f"curator type: expected one of {', '.join(CURATOR_TYPES)}, got {self.curator_type:.40}")
        if self.publication_date and not _is_date(self.publication_date):
            problems.append(f"publication date: expected a date as YYYY-MM-DD, got {self.publication_date:.40}")
        if problems:
            raise PHSafeError(problems)

    def get(self, name: str, todo: str) -> str:
        """The answer called `name`, or `todo` as a TODO."""
        words = " ".join(str(getattr(self, name)).split())
        return printable(words, MAX_CHARACTERS) or f"{TODO}{todo}"


def registry(
    release: Release | str | Path,
    out: str | Path,
    *,
    name: str = "",
    curator: str = "",
    curator_type: str = "",
    intended_use: str = "",
    publication_date: str = "",
    author: str = "",
) -> list[str]:
    """Write a draft entry for the OpenDP registry of deployments.

    The entry is YAML in the form of the registry's template. Privacy parameters, mechanisms and margins of error come
    from the release; the arguments below are what only the publisher knows, and each one left empty becomes a TODO.

    Args:
        release: A release or its folder; it must pass its check.
        out: Path of the YAML file; it must not exist yet.
        name: Name of the data product.
        curator: Organization that publishes it.
        curator_type: "Government", "Industry" or "Nonprofit".
        intended_use: What the tables are for.
        publication_date: Date of publication, as YYYY-MM-DD.
        author: Person who fills in the entry.

    Returns:
        The fields that still contain a TODO, as dotted paths.

    Raises:
        PHSafeError: If the release can't be read or fails its check, if `out` exists, or if the registry would reject
            an answer.

    Example:
        >>> import phsafe
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     release = phsafe.release(
        ...         "examples/acs-ri.json",
        ...         "tests/data/small",
        ...         f"{folder}/release",
        ...         ledger=f"{folder}/small.ledger",
        ...         new_ledger=True,
        ...     )
        ...     todo = phsafe.registry(release, f"{folder}/entry.yaml", name="Households 2030")
        >>> todo[:2]
        ['url_slug', 'deployment.basic.data_curators.0.data_curator_name']
    """
    answers = Answers(name, curator, curator_type, intended_use, publication_date, author)
    reasons = Reasons()
    opened = reasons.check(lambda r: r if isinstance(r, Release) else Release.open(r), release)
    reasons.check(answers.check)
    reasons.check(check_new_file, Path(out))
    reasons.settle()
    assert opened is not None
    document = entry(opened, answers)
    write_new_file(Path(out), f"{_head(opened)}{dump(document)}".encode())
    return [path for path, value in leaves(document) if isinstance(value, str) and TODO in value]


def entry(release: Release, answers: Answers) -> dict[str, Any]:
    """The entry as a document, with its fields in the order of the registry's template."""
    costs = budget(release.config)
    return {
        "url_slug": _slug(answers),
        "deployment": {
            "basic": _basic(release, answers),
            "dp_variant": _variant(release),
            "privacy_loss": _loss(costs),
            "deployment_model": _model(),
            "implementation": _implementation(release, costs),
            "administrative": {
                "evidence_sources": {
                    "publication": {
                        "evidence_source_type": f"{TODO}such as Formal publication by the deploying organization",
                        "misc": {"title": f"{TODO}its title", "url": f"{TODO}its URL"},
                    }
                },
                "status": "Draft",
                "registry_authors": [answers.get("author", "the author of this entry")],
                "tier": 2,
            },
        },
    }


def leaves(document: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a document with its dotted path.

    >>> list(leaves({"a": {"b": [1]}, "c": "x"}))
    [('a.b.0', 1), ('c', 'x')]
    """
    parts = document.items() if isinstance(document, Mapping) else enumerate(document)  # type: ignore[arg-type]
    for key, value in parts:
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping | list):
            yield from leaves(value, here)
        else:
            yield here, value


def _basic(release: Release, answers: Answers) -> dict[str, Any]:
    titles = [
        f"{table.name} {table.title}"
        for table in release.config.catalog.tables
        if any(output in table.outputs for output, _ in release.config.outputs())
    ]
    region = nation(release.config).removeprefix("the ")
    return {
        "name": answers.get("name", "the name of the data product"),
        "data_curators": [
            {
                "data_curator_name": answers.get("curator", "the organization that publishes it"),
                "data_curator_type": answers.get("curator_type", f"one of {', '.join(CURATOR_TYPES)}"),
            }
        ],
        "description": f"Noisy counts about people in their households for {coverage(release.config)}, from "
        f"which these tables can be computed: {'; '.join(titles)}.",
        "intended_use": answers.get("intended_use", "what the tables are for"),
        "data_product_type": "Summary statistics",
        "data_product_region": region,
        "data_product_sector": f"{TODO}such as Government",
        "publication_date": answers.get("publication_date", "YYYY-MM-DD"),
    }


def _variant(release: Release) -> dict[str, Any]:
    return {
        "variant_name": VARIANTS[release.config.privacy],
        "data_domain": "Tables of person records, housing-unit records and unit locations, linked by an address "
        f"number, for {coverage(release.config)}. The record of a unit is a function of the people in it; the location "
        "of an address is public.",
        "unprotected_quantities": "None: every published count contains noise. The list of published cells, the "
        "truncation thresholds and the noise variances are parameters that do not depend on the data.",
    }


def _loss(costs: Budget) -> dict[str, Any]:
    config, loss = costs.config, costs.loss
    symbol, zcdp = SYMBOLS[config.privacy], config.privacy == "zcdp"
    lines = [
        f"- One person's record replaced by another (bounded): {symbol} = {amount(loss.bounded)}; this is the value "
        "given above.",
        f"- One person's record added or removed (unbounded): {symbol} = {amount(loss.unbounded)}.",
    ]
    if zcdp:
        lines.append(
            rf"- At \\(\delta\\) = {costs.delta:g}: \\(\varepsilon\\) = "
            f"{round_up(Fraction(loss.epsilon_bounded(costs.delta)), 4)} bounded, "
            f"{round_up(Fraction(loss.epsilon(costs.delta)), 4)} unbounded."
        )
    lines.append(f"- The unbounded {symbol} by tabulation:")
    lines += [f"  - {name}: {amount(part.unbounded)}" for name, part in costs.account.totals("tabulation").items()]
    return {
        "privacy_unit": "Person",
        "privacy_unit_details": "Two datasets are adjacent if one person's record in one of them is replaced by "
        "another record, which may belong to another household. The records of the housing units involved may then "
        "change in any way.",
        "number_of_privacy_units": f"{TODO}roughly how many people, as a whole number that may be made public",
        "privacy_parameters": {"rho" if zcdp else "epsilon": Decimal(amount(loss.bounded))},
        "privacy_parameters_details": "\n".join(lines),
    }


def _model() -> dict[str, Any]:
    return {
        "model_name": "Central",
        "trust_assumptions": f"{TODO}who can see the records before noise is added, and why they are trusted",
        "actors": f"{TODO}curator, data subjects, data users, adversaries",
        "release_type": "One release",
        "release_type_details": f"{TODO}whether more will be published about the same people; losses would add up",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(release: Release, costs: Budget) -> dict[str, Any]:
    config = release.config
    versions = release.manifest.get("versions")
    known = versions if isinstance(versions, dict) else {}
    software = ", ".join(f"{printable(n, 40)} {printable(v, 40)}" for n, v in list(known.items())[:10])
    tau = ", ".join(
        f"{name} {config.tau[name]}"
        for name in dict.fromkeys(m.tabulation.name for m in config.measurements() if m.tabulation.is_truncated)
    )
    joint = "" if config.sensitivity == "published" else f"The total is {COMPOSITION}."
    derived = ", ".join(output.name for output, _ in config.outputs() if output not in config.catalog.tabulations)
    return {
        "preprocessing_and_hyperparameter_tuning": "\n".join(
            [
                *([f"- Truncation: the most people counted per household, by tabulation: {tau}."] if tau else []),
                f"- {TODO}how thresholds and budgets were chosen, and whether confidential data were used to do so",
            ]
        ),
        "mechanisms": "\n".join(
            [
                f"- Noise from the {MECHANISMS[config.privacy]} distribution on every count, drawn by OpenDP's exact "
                "samplers using the operating system's random number generator, without a seed.",
                f"- Sensitivity: {MODE_NOTES[config.sensitivity]}. Parameters are exact fractions and all rounding is "
                "conservative, so the guarantee does not depend on floating-point arithmetic.",
                *([f"- {MODE_CAVEAT}"] if has_assumptions(config) else []),
                f"- Made with {software}." if software else f"- {TODO}versions of the software",
                f"- {TODO}how the records themselves are protected",
            ]
        ),
        "composition": f"Sequential: the losses of {len(costs.rows)} measurements (one tabulation at one level of "
        f"regions and groups) are added exactly; within a level every person is in at most one group. {joint}".strip(),
        "post_processing": "\n".join(
            [
                *([f"- {derived}: sums of noisy counts."] if derived else []),
                f"- {TODO}whether finished tables were computed from the noisy counts, and how",
            ]
        ),
        "justification": f"{TODO}who chose the parameters, and why",
        "utility": "\n".join(
            [
                "90 % margin of error of one noisy count by tabulation (smallest to largest across levels):",
                *(f"- {name}: {least:,.1f} to {most:,.1f}" for name, least, most in _margins(costs)),
            ]
        ),
        "additional_information": " ".join([f"Release {printable(release.release_id, 80)}.", *release.catalog_notes]),
    }


def _margins(costs: Budget) -> Iterator[tuple[str, float, float]]:
    for name in dict.fromkeys(row.event.tabulation for row in costs.rows):
        moes = [row.moe for row in costs.rows if row.event.tabulation == name]
        yield name, min(moes), max(moes)


def _slug(answers: Answers) -> str:
    if not (answers.name and answers.curator and answers.publication_date):
        return f"{TODO}name-curator-year, in lower case"
    words = f"{answers.name} {answers.curator} {answers.publication_date[:4]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _head(release: Release) -> str:
    return (
        "# Entry for the OpenDP registry of differential privacy deployments, following its template.\n"
        f"# Filled in from release {printable(release.release_id, 80)}; TODO marks what the release doesn't record.\n"
        "# Once every TODO is answered, the entry may qualify for tier 3; the registry decides.\n"
    )
