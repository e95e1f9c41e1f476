"""The privacy statement of a report: in plain language and in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import plural
from phsafe.explorer.plain_language import person
from phsafe.model.exact_numbers import round_up, text
from phsafe.privacy.accountant import Loss
from phsafe.privacy.budgets import MODE_CAVEAT, MODE_NOTES, UNITS
from phsafe.releases.manifest import COMPOSITION, NEIGHBOUR_DEFINITIONS, has_assumptions
from phsafe.reports.page_elements import facts, section, table
from phsafe.reports.report_subject import Subject

DEFINITIONS = {
    "zcdp": "zero-concentrated differential privacy (zCDP)",
    "puredp": "pure differential privacy (ε-DP)",
}
MECHANISMS = {"zcdp": "discrete Gaussian", "puredp": "two-sided geometric"}
QUESTIONS = {
    "unbounded": "whether you were counted at all",
    "bounded": "what your record says",
}


def privacy(subject: Subject) -> Html:
    """The section “Privacy”: the guarantee, what it means for one person, how it is achieved, and the exact figures."""
    return section(
        "privacy",
        "Privacy",
        el("div", el("div", _plain_language(subject)), el("aside", _figures(subject), class_="numbers"), class_="two"),
    )


def amount(value: Fraction) -> str:
    """A privacy loss with all its digits, or rounded up if its decimal expansion never ends."""
    return text(value) if "/" not in text(value) else round_up(value, 6)


def epsilon(loss: Loss, subject: Subject, neighbours: str) -> str:
    """The ε of a loss at the report's δ, rounded up; `neighbours` is "unbounded" or "bounded"."""
    delta = subject.budget.delta
    value = loss.epsilon(delta) if neighbours == "unbounded" else loss.epsilon_bounded(delta)
    return round_up(Fraction(value), 2)


def _plain_language(subject: Subject) -> Html:
    config, loss = subject.config, subject.budget.loss
    guesses = {row["neighbours"]: row["guesses_text"] for row in person(loss, subject.budget.delta)}
    unit = UNITS[config.privacy]
    tau = sorted({m.tabulation.name: config.tau[m.tabulation.name] for m in config.measurements()
                  if m.tabulation.is_truncated}.items())  # fmt: skip
    return join(
        el("h3", "What is promised"),
        el(
            "p",
            "Nearly the same numbers would have been published with or without any one person’s record. So no one can "
            "learn much about one person from them, no matter what else they know or how fast their computers are. The "
            f"privacy loss {unit} measures how close “nearly” is: the smaller, the safer, and at 0 the numbers reveal "
            "nothing about anyone.",
        ),
        el("h3", "What that means for you"),
        el(
            "p",
            "Suppose someone knows everything about everyone else, sees every number here, and finds it a toss-up ",
            QUESTIONS["unbounded"],
            ". They guess right at most about ",
            el("strong", guesses["unbounded"]),
            " of the time; a coin flip is right half of the time. If it is a toss-up between two versions of ",
            QUESTIONS["bounded"],
            ", they guess right at most about ",
            el("strong", guesses["bounded"]),
            " of the time. Real attackers usually know far less.",
        ),
        el("h3", "How it is achieved"),
        el(
            "p",
            "A random whole number was added to every count before it was published. It was drawn once from the ",
            f"{MECHANISMS[config.privacy]} distribution by an exact sampler that uses the operating system’s random "
            "number generator, so there is no seed that could leak. No count is published without noise. ",
            _thresholds(tau),
            "Cells that read only the person are counted without the unit table and include everyone. "
            if config.sensitivity == "structured"
            else "",
            "The finished tables are computed from the noisy counts alone, so they cost no further privacy.",
        ),
        el("h3", "What is not promised"),
        el(
            "p",
            "Facts about a whole group can be learned, and apply to its members whether or not they were counted. The "
            "privacy losses of several publications about the same people add up; this page covers only one. The "
            "intervals account for the noise, not for errors in the data collection itself.",
        ),
    )


def _thresholds(tau: list[tuple[str, int]]) -> str:
    """The sentence about truncation, or nothing if no tabulation counts persons."""
    if not tau:
        return ""
    values = {value for _, value in tau}
    most = str(min(values)) if len(values) == 1 else f"{min(values)} to {max(values)}"
    depending = "" if len(values) == 1 else " (depending on the table)"
    return f"At most {most} people per household are counted{depending}, which limits the influence of large ones. "


def _figures(subject: Subject) -> Html:
    config, loss, tight = subject.config, subject.budget.loss, subject.budget.account.tight_total
    unit, zcdp = UNITS[config.privacy], config.privacy == "zcdp"
    delta = f"{subject.budget.delta:g}"
    head: list[Child] = ["Neighbours", unit]
    rows: list[list[Child]] = []
    for neighbours, meaning in NEIGHBOUR_DEFINITIONS.items():
        value = loss.unbounded if neighbours == "unbounded" else loss.bounded
        row: list[Child] = [join(el("b", neighbours), el("small", meaning)), el("b", amount(value))]
        rows.append([*row, epsilon(loss, subject, neighbours)] if zcdp else row)
    if zcdp:
        head.append(f"ε at δ = {delta}")
    return join(
        el("h3", "In numbers"),
        table("The privacy loss of the whole release", head, rows, class_="loss"),
        facts(_facts(subject, tight if tight != loss else None)),
    )


def _facts(subject: Subject, tight: Loss | None) -> Iterator[tuple[Child, Child]]:
    config = subject.config
    yield "Definition", DEFINITIONS[config.privacy]
    yield "Mechanism", f"{MECHANISMS[config.privacy]} noise on every count, sampled exactly"
    versions = subject.release.manifest.get("versions")
    opendp = versions.get("opendp") if isinstance(versions, dict) else None
    yield "Sampler", f"OpenDP {printable(opendp, 40)}" if opendp is not None else "OpenDP"
    measurements = plural(len(config.measurements()), "measurement")
    published = config.sensitivity == "published"
    yield "Composition", f"exact sum over {measurements}" if published else f"{measurements}; {COMPOSITION}"
    yield "Sensitivity", MODE_NOTES[config.sensitivity]
    if has_assumptions(config):
        yield "Assumptions", MODE_CAVEAT
    yield "Invariants", "none: no count is published without noise"
    if tight is not None:
        yield (
            "Same noise, tight accounting",
            f"{UNITS[config.privacy]} = {round_up(tight.unbounded, 6)} unbounded, {round_up(tight.bounded, 6)} bounded",
        )
