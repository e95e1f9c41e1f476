"""Spreadsheet formulas of one level: noise and loss per unit of budget, under every mode and privacy definition.

They compute the same numbers as `privacy_math`. In the structured mode, cells that can be counted blind get a share of
the budget (`split`) and the least noise; the others form a block of their own (claim C18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from phsafe.configs.config import Config
from phsafe.model.exact_numbers import text
from phsafe.model.spec import Kind
from phsafe.privacy_math.level_blocks import blocks_of
from phsafe.privacy_math.level_structure import Structure, structure_of

Case = Literal["alone", "staying", "entering"]
#: Formulas for the squared Δ₂ and for Δ₁.
Pair = tuple[str, str]


class LevelFormulas:
    """The formulas of a tabulation at a level. Their argument maps columns to cells; `tau` is the threshold.

    Attributes:
        blind: The cells that the structured mode counts blind.
    """

    def __init__(self, config: Config, key: tuple[str, str]) -> None:
        self._spec = config.catalog.tabulation(key[0])
        level = next(level for level in config.catalog.levels if level.key == key[1])
        blocks = blocks_of(self._spec, level, config.tau_of(self._spec), "structured")
        self.kind: Kind = self._spec.kind
        self.blind = tuple(c for b in blocks if b.is_blind and self.kind == "persons" for c in b.cells)
        self._rest = tuple(c for c in self._spec.cells if c not in self.blind)
        self._whole = structure_of(self._spec, level)
        self._others = structure_of(self._spec, level, self._rest) if self._rest else None
        share = config.blind_share.get(key[0])
        self._share = None if share is None else text(share)

    def split(self, c: Mapping[str, str]) -> str:
        """Return the share of the budget that blind cells get in the structured mode."""
        if not self.blind or self._others is None:
            return "=1" if self.blind else "=0"
        if self._share is not None:
            return f"={self._share}"
        square = _distances(self.kind, self._others, c["tau"])["alone"][0]
        weights = (f"SQRT({len(self.blind)})", f"SQRT({len(self._rest)}*{square})")
        return f"=MIN(MAX(ROUND(10000*{weights[0]}/({weights[0]}+{weights[1]}),0),1),9999)/10000"

    def factor(self, c: Mapping[str, str]) -> str:
        """Return the noise factor of the noisiest cells: k in σ² = k/ρ, or Δ in b = Δ/ε."""
        if self.kind == "dropped":
            return '=IF(definition="zcdp",0.5,1)'
        tau = c["tau"]
        published = (f"2*({tau}+1)^2", f"2*{tau}+2") if self.kind == "persons" else ("2", "2")
        square, sum_ = _distances(self.kind, self._whole, tau)["alone"]
        zcdp = (published[0], f"{square}/2", square, self._structured_factor(c, 0))
        pure = (published[1], sum_, sum_, self._structured_factor(c, 1))
        return f"={_by_definition(lambda i: _by_mode((zcdp, pure)[i]))}"

    def sigmas(self, c: Mapping[str, str]) -> Pair:
        """Return σ (or the scale) of cells counted blind and of the others."""
        blind, rest = (self._scale(c, part) for part in ("blind", "rest"))
        return f'IF(mode="structured",{blind},{c["sigma"]})', f'IF(mode="structured",{rest},{c["sigma"]})'

    def loss(self, c: Mapping[str, str], case: Case, *, bounded: bool = False) -> str:
        """Return the loss per unit of budget: of the level alone, or its part if the household stays or enters."""
        if self.kind == "dropped":
            return f"={2 if bounded else 1}"

        def of(i: int) -> str:
            ratio = _ratio(self.kind, self._whole, c["tau"], case, i)
            multiples = ((4, 2), (2, 2))[i] if bounded else ((1, 0.5), (1, 1))[i]
            tight, tight_bounded = (f"{multiple}*{ratio}" for multiple in multiples)
            rest = "0" if self._others is None else _ratio(self.kind, self._others, c["tau"], case, i)
            blind = 2 if bounded else 1
            structured = f"({blind}*{c['split']}+{multiples[0]}*(1-{c['split']})*{rest})"
            return _by_mode((str(blind), tight, tight_bounded, structured))

        return f"={_by_definition(of)}"

    def _structured_factor(self, c: Mapping[str, str], i: int) -> str:
        blind = (f"0.5/{c['split']}", f"1/{c['split']}")[i]
        if self._others is None:
            return blind
        distance = _distances(self.kind, self._others, c["tau"])["alone"][i]
        rest = f"{distance}/{2 - i}/(1-{c['split']})"
        return f"MAX({blind},{rest})" if self.blind else rest

    def _scale(self, c: Mapping[str, str], part: str) -> str:
        """Return σ or the scale of one part in the structured mode; without such cells, that of the level."""
        if part == "blind":
            factors = ("0.5", "1") if self.blind else None
            budget = f"({c['split']}*{c['stated']})"
        else:
            distances = None if self._others is None else _distances(self.kind, self._others, c["tau"])["alone"]
            factors = None if distances is None else (f"{distances[0]}/2", distances[1])
            budget = f"((1-{c['split']})*{c['stated']})"
        if factors is None or self.kind == "dropped":
            return c["sigma"]
        return f'IF(definition="zcdp",SQRT({factors[0]}/{budget}),{factors[1]}/{budget})'


def _by_mode(formulas: tuple[str, str, str, str]) -> str:
    published, tight, bounded, structured = formulas
    return f'IF(mode="published",{published},IF(mode="tight",{tight},IF(mode="tight-bounded",{bounded},{structured})))'


def _by_definition(of: Callable[[int], str]) -> str:
    return f'IF(definition="zcdp",{of(0)},{of(1)})'


def _distances(kind: Kind, structure: Structure, tau: str) -> dict[Case, Pair]:
    """Return the formulas of the distances: by itself, staying and entering (claim C19)."""
    k, places = (tau, structure.places) if kind == "persons" else ("1", 1)
    gate = (f"MAX({k}^2,{places})", f"MAX({k},{places})")
    alone = {"moves": (f"(2*{k}^2)", f"(2*{k})"), "mixed gate": (f"({k}^2+1)", f"({k}+1)")}.get(
        structure.level_class, gate
    )
    swap = str(places if kind == "persons" else 0)
    staying = alone if structure.reads_units else (swap, swap)
    return {"alone": alone, "staying": staying, "entering": (f"{k}^2", k)}


def _ratio(kind: Kind, structure: Structure, tau: str, case: Case, i: int) -> str:
    """Return the part of a level's distance in a case."""
    if case == "alone":
        return "1"
    distances = _distances(kind, structure, tau)
    return f"({distances[case][i]}/{distances['alone'][i]})"


def letters(column: int) -> str:
    """Return the letters of a column, counted from 0.

    >>> letters(0), letters(25), letters(26), letters(701), letters(702)
    ('A', 'Z', 'AA', 'ZZ', 'AAA')
    """
    before, last = divmod(column, 26)
    return (letters(before - 1) if before else "") + chr(ord("A") + last)


def probability(m: str, sigma: str) -> str:
    """Return the formula for P(|X| ≤ m) of the discrete Gaussian: a sum for small σ, Euler-Maclaurin for large σ."""
    weights = f"EXP(-((ROW($1:$40)/{sigma})^2)/2)"
    small = f"(1+2*SUMPRODUCT((ROW($1:$40)<={m})*{weights}))/(1+2*SUMPRODUCT({weights}))"
    end = f"EXP(-(({m}/{sigma})^2)/2)/({sigma}*SQRT(2*PI()))"
    large = f"2*NORMSDIST({m}/{sigma})-1+{end}*(1-{m}/(6*{sigma}^2))"
    return f"IF({sigma}<3,{small},{large})"
