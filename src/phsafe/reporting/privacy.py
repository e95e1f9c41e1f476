"""The privacy statement of a report: in plain words, and in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from phsafe.budgets import MODE_NOTES, UNITS
from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import plural
from phsafe.exact import round_up, text
from phsafe.explorer.meaning import person
from phsafe.folder import NEIGHBOURS
from phsafe.privacy.accountant import Loss
from phsafe.reporting.parts import facts, section, table
from phsafe.reporting.subject import Subject

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
    """The section: what is promised, what it means for a person, how it is done, and the exact numbers."""
    return section(
        "privacy",
        "Privacy",
        el("div", el("div", _words(subject)), el("aside", _numbers(subject), class_="numbers"), class_="two"),
    )


def amount(value: Fraction) -> str:
    """A loss with all its digits, or rounded up where they never end."""
    return text(value) if "/" not in text(value) else round_up(value, 6)


def epsilon(loss: Loss, subject: Subject, kind: str) -> str:
    """The ε of a loss at the report's δ, rounded up."""
    delta = subject.budget.delta
    value = loss.epsilon(delta) if kind == "unbounded" else loss.epsilon_bounded(delta)
    return round_up(Fraction(value), 2)


def _words(subject: Subject) -> Html:
    config, loss = subject.config, subject.budget.loss
    guesses = {kind["neighbours"]: kind["guesses_text"] for kind in person(loss, subject.budget.delta)}
    unit = UNITS[config.privacy]
    tau = sorted({m.tabulation.name: config.tau[m.tabulation.name] for m in config.measurements()
                  if m.tabulation.counts_persons}.items())  # fmt: skip
    return join(
        el("h3", "What is promised"),
        el(
            "p",
            "With or without any one person’s record, nearly the same numbers would have been published. So nobody "
            "can learn much about one person from them, whatever else they know and however fast their computers "
            f"are. How near “nearly” is, is the privacy loss {unit}: 0 tells nothing about anybody, and smaller is "
            "safer.",
        ),
        el("h3", "What that means for you"),
        el(
            "p",
            "Take somebody who knows everything about everyone else, sees every number here, and is undecided ",
            QUESTIONS["unbounded"],
            ". They can guess right about ",
            el("strong", guesses["unbounded"]),
            " of the time at most; a coin is right half of the time. If they are undecided between two versions of ",
            QUESTIONS["bounded"],
            ", about ",
            el("strong", guesses["bounded"]),
            " at most. Real attackers know far less.",
        ),
        el("h3", "How it is done"),
        el(
            "p",
            "Every count had a random whole number added to it before anyone saw it, drawn once from the ",
            f"{MECHANISMS[config.privacy]} distribution by exact samplers over the operating system’s random "
            "numbers, with no seed that could be kept. Nothing is published without noise: no count here is exact. ",
            _thresholds(tau),
            "The finished tables are computed from the noisy counts alone, so they cost no more privacy.",
        ),
        el("h3", "What is not promised"),
        el(
            "p",
            "What is true of a whole group can be learned, and holds for its members whether or not they were "
            "counted. Losses of several publications about the same people add up; this page is about one. Noise "
            "hides people, not mistakes: errors of the collection itself are not in the intervals.",
        ),
    )


def _thresholds(tau: list[tuple[str, int]]) -> str:
    """The sentence about truncation, in the fewest words that are true."""
    if not tau:
        return ""
    values = {value for _, value in tau}
    how = str(values.pop()) if len(values) == 1 else f"{min(values)} to {max(values)}, depending on the table,"
    return f"Of a very large household at most {how} people are counted, so that no household weighs too much. "


def _numbers(subject: Subject) -> Html:
    config, loss, tight = subject.config, subject.budget.loss, subject.budget.account.tight_total
    unit, zcdp = UNITS[config.privacy], config.privacy == "zcdp"
    delta = f"{subject.budget.delta:g}"
    head: list[Child] = ["Neighbours", unit]
    rows: list[list[Child]] = []
    for kind, about in NEIGHBOURS.items():
        value = loss.unbounded if kind == "unbounded" else loss.bounded
        row: list[Child] = [join(el("b", kind), el("small", about)), el("b", amount(value))]
        rows.append([*row, epsilon(loss, subject, kind)] if zcdp else row)
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
    yield "Mechanism", f"{MECHANISMS[config.privacy]} noise on every count, exactly sampled"
    versions = subject.release.manifest.get("versions")
    opendp = versions.get("opendp") if isinstance(versions, dict) else None
    yield "Sampler", f"OpenDP {printable(opendp, 40)}" if opendp is not None else "OpenDP"
    yield "Composition", f"the sum over {plural(len(config.measurements()), 'measurement')}, exactly"
    yield "A person’s reach", MODE_NOTES[config.sensitivity]
    yield "Held exact", "nothing: there are no invariants"
    if tight is not None:
        yield (
            "Same noise, tight proof",
            f"{UNITS[config.privacy]} = {round_up(tight.unbounded, 6)} unbounded, {round_up(tight.bounded, 6)} bounded",
        )
