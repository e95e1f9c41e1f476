"""The audit as a whole: which mechanisms, which claims, what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from phsafe.auditing import mechanisms
from phsafe.auditing.attacks import Knowledge, learn
from phsafe.auditing.worlds import WORLD, Neighbours, neighbours
from phsafe.privacy import sensitivity
from phsafe.privacy.accountant import round_up
from phsafe.privacy.mechanism import noise_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.privacy.sensitivity import Definition, Mode

Verdict = Literal["holds", "convicted", "broken, not convicted"]
#: The chance that a mechanism which keeps its claim is convicted, for each finding.
FALSE_ALARM = 1e-6
#: Worlds in one run; the share of draws that the attacker learns from.
WORLDS = 1000
TRAINING = 0.25
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Case:
    """A mechanism, the setting it runs in, and whether it is broken on purpose."""

    name: str
    run: mechanisms.Run = mechanisms.real
    definition: Definition = "zcdp"
    mode: Mode = "tight"
    stated: tuple[str, str] = ("0.5", "0.5")
    units: bool = False
    bounded: bool = False
    broken: bool = False


#: Nearly all of a pure loss at one level: an attacker then needs two counts to be extreme rather than four.
PURE = ("1.6", "0.01")
CASES = (
    Case("persons, tight"),
    Case("units, tight", units=True),
    Case("persons, tight-bounded", mode="tight-bounded", bounded=True, stated=("0.25", "0.25")),
    Case("persons, published", mode="published"),
    Case("persons, pure DP", definition="puredp", stated=PURE),
    Case("20 % too little noise", run=mechanisms.too_little_noise, broken=True),
    Case("20 % too little noise, pure DP", run=mechanisms.too_little_noise, definition="puredp", stated=PURE,
         broken=True),
    Case("noise drawn once for two levels", run=mechanisms.one_tape, broken=True),
    Case("grid taken from the data", run=mechanisms.grid_from_data, broken=True),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One line of the audit: the claimed loss, and the loss that the attacker proves."""

    case: Case
    trials: int
    claim: float
    lower_bound: float
    attack: str

    @property
    def unit(self) -> str:
        """The symbol of the loss."""
        return "ρ" if self.case.definition == "zcdp" else "ε"

    @property
    def verdict(self) -> Verdict:
        """Convicted where the proven loss is above the claim."""
        if self.lower_bound > self.claim:
            return "convicted"
        return "broken, not convicted" if self.case.broken else "holds"

    @property
    def as_expected(self) -> bool:
        """Whether the real mechanism holds, or a broken one is convicted."""
        return (self.verdict == "convicted") == self.case.broken


def audit(trials: int = 20_000, cases: tuple[Case, ...] = CASES, progress: Progress | None = None) -> list[Finding]:
    """Audit each case with so many trials of either population."""
    findings = []
    for i, case in enumerate(cases):
        if progress is not None:
            progress(case.name, i / len(cases))
        findings.append(audit_case(case, trials))
    return findings


def audit_case(case: Case, trials: int) -> Finding:
    """Draw, learn from a quarter of the draws, and judge on the rest."""
    worlds = min(WORLDS, trials)
    pair = neighbours(worlds, case.definition, case.mode, case.stated, units=case.units, bounded=case.bounded)
    first, second = (_draw(case, pair, i, trials) for i in (0, 1))
    cut = max(1, int(TRAINING * trials))
    scale = np.repeat([noise_of(pair.config, m).scale for m in pair.config.measurements()], WORLD // 2)
    knowledge = Knowledge(case.definition, scale, *(values[0] for values in pair.values))
    attack = learn(knowledge, (first[:cut], second[:cut]), trials - cut, FALSE_ALARM)
    tests = attack.binned(first[cut:]), attack.binned(second[cut:])
    bound = attack.loss_at_least(case.definition, tests, FALSE_ALARM)
    return Finding(case, trials, claimed(case, pair), bound, attack.name)


def claimed(case: Case, pair: Neighbours) -> float:
    """The loss that the config claims for these neighbours, both levels together (claims C8 and C9)."""
    total = Fraction(0)
    for m in pair.config.measurements():
        delta = sensitivity.of(pair.config.tau.get(m.tabulation.name), case.mode)
        total += delta.loss(case.definition, Fraction(m.budget))[case.bounded]
    return round_up(total)


def _draw(case: Case, pair: Neighbours, which: int, trials: int) -> NDArray[np.float64]:
    return np.concatenate(list(_runs(case, pair, which, trials)))[:trials]


def _runs(case: Case, pair: Neighbours, which: int, trials: int) -> Iterator[NDArray[np.float64]]:
    for _ in range(-(-trials // min(WORLDS, trials))):
        yield case.run(pair.config, pair.counts[which])


def document(findings: list[Finding]) -> dict[str, object]:
    """The findings for JSON."""
    return {
        "false_alarm": FALSE_ALARM,
        "findings": [
            {
                "mechanism": finding.case.name,
                "broken_on_purpose": finding.case.broken,
                "neighbours": "bounded" if finding.case.bounded else "unbounded",
                "definition": finding.case.definition,
                "sensitivity": finding.case.mode,
                "trials": finding.trials,
                "claim": finding.claim,
                "lower_bound": finding.lower_bound,
                "attack": finding.attack,
                "verdict": finding.verdict,
            }
            for finding in findings
        ],
    }
