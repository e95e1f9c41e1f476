"""The audit: its cases, how often and how each is run, and its findings (verdicts)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phsafe.model.exact_numbers import float_above
from phsafe.privacy.accountant import plan
from phsafe.privacy.mechanism import noise_of
from phsafe.privacy_audit import audited_mechanisms
from phsafe.privacy_audit.attacker import Knowledge, learn
from phsafe.privacy_audit.worst_cases import WORLD, Neighbours, neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.privacy_math.sensitivity import Definition, Mode

Verdict = Literal["holds", "convicted", "broken, not convicted"]
#: The probability, for each finding, that a mechanism which keeps its claim is convicted.
FALSE_ALARM = 1e-6
#: Worlds in one run, and the share of draws that the attacker is trained on.
WORLDS = 1000
TRAINING = 0.25
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Case:
    """A mechanism to audit, its setting, and whether it is deliberately broken.

    Attributes:
        name: Name of the case.
        run: The mechanism.
        definition: Privacy definition.
        mode: Sensitivity mode.
        stated: Budgets of the two levels.
        units: Whether housing units are counted rather than persons.
        bounded: Whether neighbours are bounded rather than unbounded.
        by_age: Whether cells read ages rather than the unit.
        broken: Whether the mechanism is deliberately broken.
    """

    name: str
    run: audited_mechanisms.Run = audited_mechanisms.real
    definition: Definition = "zcdp"
    mode: Mode = "tight"
    stated: tuple[str, str] = ("0.5", "0.5")
    units: bool = False
    bounded: bool = False
    by_age: bool = False
    broken: bool = False


#: Budgets for pure DP, nearly all at one level: the attack then needs two extreme counts rather than four.
PURE = ("1.6", "0.01")
CASES = (
    Case("persons, tight"),
    Case("units, tight", units=True),
    Case("persons, tight-bounded", mode="tight-bounded", bounded=True, stated=("0.25", "0.25")),
    Case("persons, published", mode="published"),
    Case("persons, pure DP", definition="puredp", stated=PURE),
    Case("gate, tight", by_age=True),
    Case("gate, tight, bounded", by_age=True, bounded=True, stated=("0.125", "0.125")),
    Case("counted without units, structured", by_age=True, mode="structured"),
    Case("20 % too little noise", run=audited_mechanisms.too_little_noise, broken=True),
    Case("20 % too little noise, pure DP", run=audited_mechanisms.too_little_noise, definition="puredp", stated=PURE,
         broken=True),
    Case("noise drawn once for two levels", run=audited_mechanisms.shared_noise, broken=True),
    Case("grid taken from the data", run=audited_mechanisms.grid_from_data, broken=True),
    Case("movable level treated as person-only", run=audited_mechanisms.person_only, broken=True),
)  # fmt: skip


@dataclass(frozen=True)
class AuditFinding:
    """The result for one case: the claimed loss, and the lower bound that the attacker proves."""

    case: Case
    trials: int
    claim: float
    lower_bound: float
    attack: str

    @property
    def unit(self) -> str:
        """The symbol of the privacy loss."""
        return "ρ" if self.case.definition == "zcdp" else "ε"

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds; a mechanism is convicted if the proven loss exceeds it."""
        if self.lower_bound > self.claim:
            return "convicted"
        return "broken, not convicted" if self.case.broken else "holds"

    @property
    def as_expected(self) -> bool:
        """Whether the claim of the real mechanism holds, or a broken mechanism is convicted."""
        return (self.verdict == "convicted") == self.case.broken


def audit(
    trials: int = 20_000, cases: tuple[Case, ...] = CASES, progress: Progress | None = None
) -> list[AuditFinding]:
    """Attack the mechanism empirically and compare the privacy loss that is proven with the one that is claimed.

    The default cases cover the real mechanism in several settings, and broken mechanisms that a good audit convicts.

    Args:
        trials: Number of runs on each of the two neighbouring populations; more trials give tighter bounds.
        cases: The mechanisms and settings to audit.
        progress: Called with the name of a case and the share of the work that is done.

    Returns:
        One finding per case. A correct mechanism is convicted with a probability of at most one in a million.

    Example:
        >>> from phsafe.privacy_audit.audit_run import CASES
        >>> (finding,) = audit(trials=200, cases=CASES[:1])
        >>> finding.case.name, finding.claim, finding.verdict
        ('persons, tight', 1.0, 'holds')
    """
    findings = []
    for i, case in enumerate(cases):
        if progress is not None:
            progress(case.name, i / len(cases))
        findings.append(audit_case(case, trials))
    return findings


def audit_case(case: Case, trials: int) -> AuditFinding:
    """Run a case, train the attacker on a quarter of the draws, and bound the loss from the rest."""
    worlds = min(WORLDS, trials)
    pair = neighbours(worlds, case.definition, case.mode, case.stated, units=case.units, bounded=case.bounded,
                      by_age=case.by_age)  # fmt: skip
    first, second = (_draw(case, pair, i, trials) for i in (0, 1))
    cut = max(1, int(TRAINING * trials))
    scale = np.repeat([noise_of(pair.config, m)[0].scale for m in pair.config.measurements()], WORLD // 2)
    knowledge = Knowledge(case.definition, scale, *(values[0] for values in pair.values))
    attack = learn(knowledge, (first[:cut], second[:cut]), trials - cut, FALSE_ALARM)
    tests = attack.binned(first[cut:]), attack.binned(second[cut:])
    bound = attack.loss_at_least(case.definition, tests, FALSE_ALARM)
    return AuditFinding(case, trials, claimed(case, pair), bound, attack.name)


def claimed(case: Case, pair: Neighbours) -> float:
    """The loss that the config claims for these neighbours, both levels together (claims C8, C9 and C19)."""
    loss = plan(pair.config).total
    return float_above(loss.bounded if case.bounded else loss.unbounded)


def _draw(case: Case, pair: Neighbours, which: int, trials: int) -> NDArray[np.float64]:
    return np.concatenate(list(_runs(case, pair, which, trials)))[:trials]


def _runs(case: Case, pair: Neighbours, which: int, trials: int) -> Iterator[NDArray[np.float64]]:
    for _ in range(-(-trials // min(WORLDS, trials))):
        yield case.run(pair.config, pair.counts[which])


def document(findings: list[AuditFinding]) -> dict[str, object]:
    """The findings as a JSON document."""
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
