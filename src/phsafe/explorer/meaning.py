"""What the numbers mean, in words: a margin of error for a group, and a privacy loss for a person."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from phsafe.exact import round_up
from phsafe.privacy.margins import Z

if TYPE_CHECKING:
    from phsafe.privacy.accountant import Loss
    from phsafe.privacy.sensitivity import Definition, Mode

UNITS: Mapping[Definition, str] = {"zcdp": "ρ", "puredp": "ε"}
MODE_NOTES: Mapping[Mode, str] = {
    "published": "published (the paper's Δ)",
    "tight": "tight (holds the unbounded loss)",
    "tight-bounded": "tight-bounded (holds the bounded loss)",
}
#: A MOE above these shares of the figure itself makes it rough, or hardly more than noise.
ROUGH, NOISE = 0.05, 0.3
#: Beyond this relative uncertainty of a denominator the delta method has nothing to say.
DELTA_METHOD = 0.5


def guesses(definition: Definition, amount: Fraction) -> float:
    """How often the best attacker, undecided between two neighbours, guesses right: at most this share.

    For pure DP e^ε/(1 + e^ε) holds for any noise. For zCDP it is that of Gaussian noise with this ρ: its privacy loss
    is normal with mean ρ and variance 2ρ, so the best test is right with probability Φ(√(ρ/2)).

    >>> round(guesses("zcdp", Fraction("1.257281")), 3), guesses("puredp", Fraction(0))
    (0.786, 0.5)
    """
    if definition == "puredp":
        return certainty(float(amount))
    return 0.5 * (1 + math.erf(math.sqrt(float(amount)) / 2))


def guesses_any_noise(amount: Fraction) -> float:
    """The same for any ρ-zCDP mechanism: total variation by Pinsker or Bretagnolle-Huber, whichever is less."""
    rho = float(amount)
    return (1 + min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))) / 2


def certainty(epsilon: float) -> float:
    """The highest posterior that an attacker with a prior of 50 % can reach under ε: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-min(epsilon, 700.0)))


def person(loss: Loss, delta: Decimal) -> list[dict[str, Any]]:
    """For both kinds of neighbours: the loss, ε at δ, and what an attacker can make of it."""
    kinds = (
        ("unbounded", "whether you are in the data at all", loss.unbounded, loss.epsilon(delta)),
        ("bounded", "what your record says", loss.bounded, loss.epsilon_bounded(delta)),
    )
    return [
        {
            "neighbours": kind,
            "question": question,
            "guesses": guesses(loss.definition, amount),
            "guesses_text": percent_up(guesses(loss.definition, amount)),
            "any_noise_text": percent_up(
                guesses_any_noise(amount) if loss.definition == "zcdp" else guesses("puredp", amount)
            ),
            "epsilon_text": round_up(Fraction(epsilon), 4),
            "certainty_text": percent_up(certainty(epsilon)),
        }
        for kind, question, amount, epsilon in kinds
    ]


def percent_up(share: float) -> str:
    """A share in percent, rounded up, with more digits the nearer it is to 100 %.

    >>> percent_up(0.78612), percent_up(0.99999512), percent_up(1 - 1e-18)
    ('78.7 %', '99.9996 %', 'over 99.999999 %')
    """
    if share > 0.99999999:
        return "over 99.999999 %"
    places = max(1, math.ceil(-math.log10(1 - share)) - 2) if share > 0.99 else 1
    return f"{round_up(Fraction(share) * 100, places)} %"


def count(figure: float, moe: float) -> dict[str, Any]:
    """What a margin of error means for a count of a given size."""
    share = moe / figure
    low, high = max(0.0, figure - moe), figure + moe
    return {
        "moe": moe,
        "share": share,
        "verdict": _verdict(share),
        "sentence": f"{figure:,.0f} ± {_short(moe)}",
        "detail": f"In 9 of 10 releases the published number would fall between {low:,.0f} and {high:,.0f}, "
        f"which is {100 * share:,.1f} % of it either way.",
    }


def average(people: float, units: float, count_variance: float, unit_variance: float) -> dict[str, Any]:
    """What the noise means for an average, people per unit, by the delta method: Var(N/D) ≈ (Var N + R² Var D)/D²."""
    ratio = people / units
    moe = float(Z) * math.sqrt(count_variance + ratio**2 * unit_variance) / units
    blurred = float(Z) * math.sqrt(unit_variance) / units
    share = moe / ratio
    detail = (
        f"In 9 of 10 releases the average computed from the noisy counts would fall within {_short(moe)} of "
        f"{ratio:.2f}, which is {100 * share:,.1f} % of it."
    )
    if blurred > DELTA_METHOD:
        detail = (
            f"The noise on the {units:,.0f} units (± {float(Z) * math.sqrt(unit_variance):,.0f}) is too large "
            "for their number: no usable average before statistical postprocessing, and a vague one after."
        )
        share = max(share, 1.0)
    return {
        "moe": moe,
        "share": share,
        "verdict": _verdict(share),
        "sentence": f"average {ratio:.2f} ± {_short(moe)}",
        "detail": detail,
    }


def _verdict(share: float) -> str:
    if share <= ROUGH:
        return "good"
    return "rough" if share <= NOISE else "noise"


def _short(moe: float) -> str:
    """A margin with the digits that matter."""
    if moe >= 100:
        return f"{moe:,.0f}"
    return f"{moe:.1f}" if moe >= 1 else f"{moe:.2g}"
