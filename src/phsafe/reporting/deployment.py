"""`phsafe registry`: an entry for the OpenDP registry of deployments, filled with what a release knows of itself.

The entry has the form of the registry's own template (opendp/deployments-registry-data). What no release can know
(who publishes it, why, and how its parameters were chosen) stays a text that begins with TODO, until somebody says.
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

from phsafe.budgets import MODE_NOTES, Budget, budget
from phsafe.display.html import printable
from phsafe.display.names import nation, places
from phsafe.errors import PHSafeError, Reasons
from phsafe.exact import round_up
from phsafe.folder import Release
from phsafe.newfile import check_absent, write_new
from phsafe.reporting.privacy import MECHANISMS, amount
from phsafe.reporting.yaml import dump

TODO = "TODO: "
VARIANTS = {"zcdp": "Zero-concentrated DP", "puredp": "Pure DP"}
SYMBOLS = {"zcdp": r"\\(\rho\\)", "puredp": r"\\(\varepsilon\\)"}
#: An answer is a paragraph at most.
LONGEST = 2000
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
        """Refuse answers that the registry would refuse."""
        problems = []
        if self.curator_type and self.curator_type not in CURATOR_TYPES:
            problems.append(f"curator type: expected one of {', '.join(CURATOR_TYPES)}, got {self.curator_type:.40}")
        if self.publication_date and not _is_date(self.publication_date):
            problems.append(f"publication date: expected YYYY-MM-DD, got {self.publication_date:.40}; use a real day")
        if problems:
            raise PHSafeError(problems)

    def get(self, name: str, ask: str) -> str:
        """An answer, or the TODO that asks for it."""
        words = " ".join(str(getattr(self, name)).split())
        return printable(words, LONGEST) or f"{TODO}{ask}"


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
    """Write a release's entry for the registry of deployments; returns the fields that are still to be filled.

    A release that doesn't pass its check gets no entry.
    """
    answers = Answers(name, curator, curator_type, intended_use, publication_date, author)
    reasons = Reasons()
    opened = reasons.check(lambda r: r if isinstance(r, Release) else Release.open(r), release)
    reasons.check(answers.check)
    reasons.check(check_absent, Path(out))
    reasons.settle()
    assert opened is not None
    document = entry(opened, answers)
    write_new(Path(out), f"{_head(opened)}{dump(document)}".encode())
    return [path for path, value in leaves(document) if isinstance(value, str) and TODO in value]


def entry(release: Release, answers: Answers) -> dict[str, Any]:
    """The entry as a document, in the order of the registry's template."""
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
                        "misc": {"title": f"{TODO}its title", "url": f"{TODO}its address"},
                    }
                },
                "status": "Draft",
                "registry_authors": [answers.get("author", "who fills in this entry")],
                "tier": 2,
            },
        },
    }


def leaves(document: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a document with its path.

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
                "data_curator_name": answers.get("curator", "who publishes it"),
                "data_curator_type": answers.get("curator_type", f"one of {', '.join(CURATOR_TYPES)}"),
            }
        ],
        "description": f"Noisy counts about people in their households for {places(release.config)}, behind the "
        f"tables {'; '.join(titles)}.",
        "intended_use": answers.get("intended_use", "what the tables are for"),
        "data_product_type": "Summary statistics",
        "data_product_region": region,
        "data_product_sector": f"{TODO}such as Government",
        "publication_date": answers.get("publication_date", "YYYY-MM-DD"),
    }


def _variant(release: Release) -> dict[str, Any]:
    return {
        "variant_name": VARIANTS[release.config.privacy],
        "data_domain": "Tables of person records, of housing-unit records and of the places of units, linked by an "
        f"address number, for {places(release.config)}. Records of a unit are a function of the people in it; the "
        "place of an address is public.",
        "unprotected_quantities": "None: every published count has noise. The list of published cells, the thresholds "
        "and the variances of the noise are parameters that do not depend on the data.",
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
    lines.append(f"- Of the unbounded {symbol}, by tabulation:")
    lines += [f"  - {name}: {amount(part.unbounded)}" for name, part in costs.account.totals("tabulation").items()]
    return {
        "privacy_unit": "Person",
        "privacy_unit_details": "Two datasets are adjacent if one person's record in one of them is replaced by "
        "another record, which may belong to another household. Records of the units concerned may change with it in "
        "any way.",
        "number_of_privacy_units": f"{TODO}about how many people, as a whole number that may be public",
        "privacy_parameters": {"rho" if zcdp else "epsilon": Decimal(amount(loss.bounded))},
        "privacy_parameters_details": "\n".join(lines),
    }


def _model() -> dict[str, Any]:
    return {
        "model_name": "Central",
        "trust_assumptions": f"{TODO}who sees the records before the noise is added, and why they are trusted",
        "actors": f"{TODO}curator, data subjects, data users, adversaries",
        "release_type": "One release",
        "release_type_details": f"{TODO}whether more will be published about the same people; losses then add up",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(release: Release, costs: Budget) -> dict[str, Any]:
    config = release.config
    versions = release.manifest.get("versions")
    known = versions if isinstance(versions, dict) else {}
    made = " and ".join(f"{printable(n, 40)} {printable(v, 40)}" for n, v in list(known.items())[:10])
    tau = ", ".join(
        f"{name} {config.tau[name]}"
        for name in dict.fromkeys(m.tabulation.name for m in config.measurements() if m.tabulation.counts_persons)
    )
    derived = ", ".join(output.name for output, _ in config.outputs() if output not in config.catalog.tabulations)
    return {
        "preprocessing_and_hyperparameter_tuning": "\n".join(
            [
                *([f"- Of each household at most so many people are counted, by tabulation: {tau}."] if tau else []),
                f"- {TODO}how thresholds and budgets were chosen, and whether confidential data were used for it",
            ]
        ),
        "mechanisms": "\n".join(
            [
                f"- Noise of the {MECHANISMS[config.privacy]} distribution on every count, drawn by OpenDP's exact "
                "samplers over the operating system's random numbers, without a seed.",
                f"- A person's reach: {MODE_NOTES[config.sensitivity]}; parameters are exact fractions, and "
                "what is rounded is rounded to the safe side, so no floating-point number carries a guarantee.",
                f"- Made with {made}." if made else f"- {TODO}versions of the program",
                f"- {TODO}how the records themselves are protected",
            ]
        ),
        "composition": f"Sequential: losses of {len(costs.rows)} measurements (a tabulation at a level of regions and "
        "groups) are added exactly; within a level every person is in at most one group.",
        "post_processing": "\n".join(
            [
                *([f"- {derived}: sums of noisy counts."] if derived else []),
                f"- {TODO}whether finished tables were made from the noisy counts, and how",
            ]
        ),
        "justification": f"{TODO}who decided on the parameters, and why",
        "utility": "\n".join(
            [
                "90 % margin of error of one noisy count, by tabulation (smallest to largest over levels):",
                *(f"- {name}: {least:,.1f} to {most:,.1f}" for name, least, most in _margins(costs)),
            ]
        ),
        "additional_information": f"Release {printable(release.release_id, 80)}.",
    }


def _margins(costs: Budget) -> Iterator[tuple[str, float, float]]:
    for name in dict.fromkeys(row.event.tabulation for row in costs.rows):
        moes = [row.moe for row in costs.rows if row.event.tabulation == name]
        yield name, min(moes), max(moes)


def _slug(answers: Answers) -> str:
    if not (answers.name and answers.curator and answers.publication_date):
        return f"{TODO}name-curator-year, in small letters"
    words = f"{answers.name} {answers.curator} {answers.publication_date[:4]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _head(release: Release) -> str:
    return (
        "# An entry for the registry of differential privacy deployments, in the form of its template.\n"
        f"# Filled from the release {printable(release.release_id, 80)}; TODO marks what no release can know.\n"
        "# With every TODO answered it is of tier 3.\n"
    )
