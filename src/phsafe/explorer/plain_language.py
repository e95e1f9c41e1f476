"""Plain-language explanations: what a margin of error means for a group, and a privacy loss for a person."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from phsafe.model.exact_numbers import round_up, text

if TYPE_CHECKING:
    from phsafe.privacy.accountant import Loss
    from phsafe.privacy_math.sensitivity import Definition

#: An estimate is rough when its MOE exceeds the first share of it, and mostly noise when it exceeds the second.
ROUGH, NOISE = 0.05, 0.3
#: The delta method is unreliable when the MOE of the denominator exceeds this share of it.
DELTA_METHOD = 0.5


def guesses(definition: Definition, amount: Fraction) -> float:
    """Return the success rate of the best attacker who starts at 50:50 between two neighbouring datasets.

    Under pure DP the bound e^ε/(1 + e^ε) holds for any noise. Under zCDP this is the success rate against Gaussian
    noise with this ρ: its privacy loss is normal with mean ρ and variance 2ρ, so the best test is right with
    probability Φ(√(ρ/2)).

    >>> round(guesses("zcdp", Fraction("1.257281")), 3), guesses("puredp", Fraction(0))
    (0.786, 0.5)
    """
    if definition == "puredp":
        return certainty(float(amount))
    return 0.5 * (1 + math.erf(math.sqrt(float(amount)) / 2))


def guesses_any_noise(amount: Fraction) -> float:
    """Return an upper bound for any ρ-zCDP mechanism: the better of Pinsker's and Bretagnolle and Huber's."""
    rho = float(amount)
    return (1 + min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))) / 2


def certainty(epsilon: float) -> float:
    """Return the highest posterior that an attacker with a prior of 50 % can reach under ε: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-min(epsilon, 700.0)))


def person(loss: Loss, delta: Decimal) -> list[dict[str, Any]]:
    """Describe an attacker's chances against one person, for unbounded and for bounded neighbours."""
    questions = (
        ("unbounded", "whether you are in the data at all", loss.unbounded, loss.epsilon(delta)),
        ("bounded", "which of two values your record holds", loss.bounded, loss.epsilon_bounded(delta)),
    )
    return [
        {
            "neighbours": neighbours,
            "question": question,
            "guesses": guesses(loss.definition, amount),
            "guesses_text": percent_up(guesses(loss.definition, amount)),
            "any_noise_text": percent_up(
                guesses_any_noise(amount) if loss.definition == "zcdp" else guesses("puredp", amount)
            ),
            "epsilon_text": round_up(Fraction(epsilon), 4),
            "certainty_text": percent_up(certainty(epsilon)),
        }
        for neighbours, question, amount, epsilon in questions
    ]


def cost_sentence(loss: Loss, baseline: str, ratio: float | None, changed: float | None) -> str:
    """Say what a scenario costs, and how much more or less that is than the baseline.

    Args:
        loss: The privacy loss of the run.
        baseline: The name of the baseline; empty if there is none.
        ratio: The unbounded loss divided by that of the baseline; None if they can't be compared.
        changed: The same for the bounded loss. It is named if it differs.

    >>> from phsafe.privacy.accountant import Loss
    >>> cost_sentence(Loss("zcdp", Fraction("1.52"), Fraction(3)), "2020", 1.21, 1.21)
    'This choice has a privacy loss of ρ = 1.52, 21 % more than 2020.'
    >>> cost_sentence(Loss("zcdp", Fraction("1.52"), Fraction(6)), "2020", 1.21, 2.42).partition("; ")[2]
    'for a changed record it is 142 % more than 2020.'
    """
    unit = "ρ" if loss.definition == "zcdp" else "ε"
    cost = f"This choice has a privacy loss of {unit} = {text(loss.unbounded)}"
    if not baseline:
        return f"{cost}."
    if ratio is None or changed is None:
        return f"{cost}, which can't be compared with {baseline}: it has a different privacy definition."
    cost = f"{cost}, {_against(ratio, baseline)}"
    return (
        f"{cost}."
        if math.isclose(ratio, changed)
        else f"{cost}; for a changed record it is {_against(changed, baseline)}."
    )


def _against(ratio: float, baseline: str) -> str:
    percent = 100 * abs(ratio - 1)
    if percent < 0.05:
        return f"the same as {baseline}"
    if ratio >= 10:
        return f"{ratio:,.0f} times that of {baseline}"
    return f"{percent:.{0 if percent >= 10 else 1}f} % {'more' if ratio > 1 else 'less'} than {baseline}"


def person_sentence(loss: Loss) -> str:
    """Say how often the best attacker guesses right whether a person was counted.

    >>> from phsafe.privacy.accountant import Loss
    >>> person_sentence(Loss("zcdp", Fraction("1.257281"), Fraction("2.514562")))
    'Someone who guesses whether you were counted is right at most 79 times in 100 (a coin flip: 50).'
    """
    right = guesses(loss.definition, loss.unbounded)
    times = str(math.ceil(100 * right)) if right <= 0.99 else percent_up(right).removesuffix(" %")
    return f"Someone who guesses whether you were counted is right at most {times} times in 100 (a coin flip: 50)."


def percent_up(share: float) -> str:
    """Format a share in percent, rounded up, with more digits the closer it is to 100 %.

    >>> percent_up(0.78612), percent_up(0.99999512), percent_up(1 - 1e-18)
    ('78.7 %', '99.9996 %', 'over 99.999999 %')
    """
    if share > 0.99999999:
        return "over 99.999999 %"
    places = max(1, math.ceil(-math.log10(1 - share)) - 2) if share > 0.99 else 1
    return f"{round_up(Fraction(share) * 100, places)} %"


def verdict(share: float) -> str:
    """Return whether a margin of error of this share of the estimate is good, rough or mostly noise."""
    if share <= ROUGH:
        return "good"
    return "rough" if share <= NOISE else "noise"


def short(moe: float) -> str:
    """Format a margin of error with only its meaningful digits.

    >>> [short(moe) for moe in (1234.5, 12.34, 0.0123, 0.00001)]
    ['1,234', '12.3', '0.012', 'under 0.001']
    """
    if moe >= 100:
        return f"{moe:,.0f}"
    if moe < 0.001:
        return "under 0.001"
    return f"{moe:.1f}" if moe >= 1 else f"{moe:.2g}"
