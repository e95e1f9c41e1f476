"""The one place where noise is made: OpenDP's exact integer samplers, privacy maps and composition.

A run is one OpenDP composition over the exact counts (claim C8). Each measurement of the plan gets a
composition of its own inside it, over its own count vector, with room for one query at its own budget. So
OpenDP itself refuses a measurement that is not in the plan, that costs more than planned, or that is asked
for a second time. Randomness is the operating system's; there is no seed.

Integers can't overflow: OpenDP adds noise to integers of any size and then clamps the sum to 64 bits, which
is postprocessing (claim C11). Budgets whose noise could come near that clamp are refused beforehand, from
the config alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from phsafe.config import Config, Measurement
from phsafe.errors import ConfigError, PHSafeError
from phsafe.privacy import sensitivity
from phsafe.privacy.margins import geometric_variance

if TYPE_CHECKING:
    from phsafe.grid import Counts
    from phsafe.privacy.sensitivity import Definition

DISTRIBUTIONS: Mapping[Definition, str] = {"zcdp": "Discrete Gaussian", "puredp": "Two-Sided Geometric"}
#: Noise of this scale leaves 64 bits with a chance below e^(−1000), whatever the count.
MAX_SCALE = 2.0**52
#: The exact arithmetic below and OpenDP's map agree; a map that wants more steps than this is not the one we know.
_MOST_STEPS = 64
#: A config has many measurements and few calibrations; this many are remembered.
CALIBRATIONS = 1024


class MechanismError(PHSafeError):
    """A measurement that the plan or its budget does not allow."""


@dataclass(frozen=True)
class Noise:
    """The noise of one measurement as used: `scale` is σ or the geometric's b; `variance` is what is printed.

    For the discrete Gaussian `variance` is the parameter σ², as in the paper and the 2020 files.
    """

    distribution: str
    scale: float
    variance: float


def expected_noise(config: Config, measurement: Measurement) -> Noise:
    """The noise of a measurement by exact arithmetic, without loading OpenDP: for plans and budgets.

    The smallest float scale with Δ²/(2σ²) ≤ ρ (claim C6) or Δ/b ≤ ε (claim C10) as exact rationals, where Δ is
    rounded up to a float and the budget down. `noise_of` has OpenDP's map confirm it.
    """
    distance, budget = _calibration(config, measurement)
    if not _nearly(config.privacy, distance, budget) <= MAX_SCALE:
        raise ConfigError(
            f"{measurement.tabulation.name}, {measurement.level.key}: expected a budget whose noise fits "
            f"64-bit integers, got {measurement.budget}"
        )
    return _expected(config.privacy, distance, budget)


@lru_cache(CALIBRATIONS)
def _expected(definition: Definition, distance: float, budget: float) -> Noise:
    """The noise of a calibration."""
    accepts = _exact_map(definition, distance, budget)
    return _noise(definition, _smallest(_nearly(definition, distance, budget), accepts))


def _nearly(definition: Definition, distance: float, budget: float) -> float:
    """The scale of the noise, up to rounding."""
    return distance / (math.sqrt(2 * budget) if definition == "zcdp" else budget)


def noise_of(config: Config, measurement: Measurement) -> Noise:
    """The noise of a measurement as a release uses it: the smallest scale that OpenDP's map accepts. No data."""
    accepts = partial(_accepts, config.privacy, *_calibration(config, measurement))
    return _noise(config.privacy, _smallest(expected_noise(config, measurement).scale, accepts))


@lru_cache(CALIBRATIONS)
def _accepts(definition: Definition, distance: float, budget: float, scale: float) -> bool:
    """Whether OpenDP's own map says that noise of a scale holds the budget."""
    return bool(make_noise(definition, 1, scale).map(_typed(definition, distance)) <= budget)


def make_noise(definition: Definition, size: int, scale: float) -> Any:  # noqa: ANN401
    """OpenDP's measurement that adds discrete Gaussian or two-sided geometric noise to `size` integers."""
    dp = opendp()
    make = dp.m.make_gaussian if definition == "zcdp" else dp.m.make_laplace
    return make(*_space(definition, size), scale=scale)


class Session:
    """Exact counts on one side, planned noisy measurements on the other; nothing else comes out."""

    def __init__(self, config: Config, counts: Counts) -> None:
        dp = opendp()
        self._config = config
        plan = [(m, *_calibration(config, m)) for m in config.measurements()]
        vectors = _checked(config, counts)
        measure = _measure(config.privacy)
        # One person record more or less is distance 1: the paper's unbounded neighbours.
        space = (dp.user_domain("exact counts", lambda _: True), dp.user_distance("person records"))
        composition = dp.c.make_adaptive_composition(*space, measure, d_in=1, d_mids=[budget for _, _, budget in plan])
        #: OpenDP's own total for one record more or less: the config's loss, up to float rounding.
        self.total: float = composition.map(1)
        run = composition(vectors)
        #: What has been measured so far, with the noise that was used.
        self.made: list[tuple[Measurement, Noise]] = []
        self._slots = {}
        for m, distance, budget in plan:
            key = (m.tabulation.name, m.level.key)
            tabulate = _tabulation(space, config.privacy, key, len(vectors[key]), distance)
            once = dp.c.make_adaptive_composition(
                *_space(config.privacy, len(vectors[key])),
                measure,
                d_in=_typed(config.privacy, distance),
                d_mids=[budget],
            )
            self._slots[key] = (run(tabulate >> once), len(vectors[key]))

    def measure(self, measurement: Measurement) -> list[int]:
        """The noisy counts of one measurement, in the order of `grid.level_rows`; once and never again."""
        dp = opendp()
        name, level = measurement.tabulation.name, measurement.level.key
        if (name, level) not in self._slots:
            raise MechanismError(f"{name}, {level}: not in the plan of this run, so it can't be measured")
        noise = noise_of(self._config, measurement)
        slot, size = self._slots[name, level]
        try:
            noisy = slot(make_noise(self._config.privacy, size, noise.scale))
        except dp.OpenDPException as error:
            # Fixed words only: a foreign message might one day hold data.
            why = "measured already" if "out of queries" in str(error) else "it would cost more than planned"
            raise MechanismError(f"{name}, {level}: refused, {why}") from None
        self.made.append((measurement, noise))
        return list(noisy)


def open_session(config: Config, counts: Counts) -> Session:
    """A session over exact counts for the plan of a config; its total is the config's loss (claim C8)."""
    return Session(config, counts)


@cache
def opendp() -> Any:  # noqa: ANN401
    """OpenDP, loaded when first needed (it takes a second) and with its user-defined parts allowed.

    `honest-but-curious` is OpenDP's word for: a person, not the library, vouches for the user-defined parts.
    Here that is one transformation, `_tabulation`, and docs/privacy.md vouches for it.
    """
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib", "honest-but-curious")
    return dp


def _tabulation(
    space: tuple[Any, Any], definition: Definition, key: tuple[str, str], size: int, distance: float
) -> Any:  # noqa: ANN401
    """Exact counts → the count vector of one level, as an OpenDP transformation.

    Stability: one person record more or less moves the vector by at most Δ (claim C4, from C1 to C3; in the
    published mode claim C7), and n records by at most n·Δ (triangle inequality).
    """

    def stability(records: int) -> float | int:
        return _typed(definition, _times_up(records, distance))

    return opendp().t.make_user_transformation(
        *space, *_space(definition, size), lambda vectors: vectors[key], stability
    )


def _calibration(config: Config, measurement: Measurement) -> tuple[float, float]:
    """Δ as a float that is never too small, and the unbounded loss as a float that is never too large."""
    delta = sensitivity.of(config.tau.get(measurement.tabulation.name), config.sensitivity)
    unbounded, _ = delta.loss(config.privacy, Fraction(measurement.budget))
    if not unbounded > 0:
        raise ConfigError(f"{measurement.tabulation.name}, {measurement.level.key}: expected a budget above 0")
    return delta.distance(config.privacy), round_down(unbounded)


def _exact_map(definition: Definition, distance: float, budget: float) -> Callable[[float], bool]:
    """OpenDP's privacy map for integers, in exact rationals: whether a scale holds the budget."""
    delta, loss = Fraction(distance), Fraction(budget)
    if definition == "zcdp":
        return lambda scale: delta**2 <= 2 * loss * Fraction(scale) ** 2
    return lambda scale: delta <= loss * Fraction(scale)


def _smallest(start: float, accepts: Callable[[float], bool]) -> float:
    """The smallest float that is accepted, a few steps from the start; acceptance grows with the scale."""
    scale, steps = start, 0
    while not accepts(scale) and steps < _MOST_STEPS:
        scale, steps = math.nextafter(scale, math.inf), steps + 1
    while accepts(math.nextafter(scale, 0.0)) and steps < _MOST_STEPS:
        scale, steps = math.nextafter(scale, 0.0), steps + 1
    if not accepts(scale):
        raise MechanismError("OpenDP's privacy map does not accept the expected noise; nothing was measured")
    return scale


def _noise(definition: Definition, scale: float) -> Noise:
    variance = float(Fraction(scale) ** 2) if definition == "zcdp" else geometric_variance(scale)
    return Noise(DISTRIBUTIONS[definition], scale, variance)


@cache
def _space(definition: Definition, size: int) -> tuple[Any, Any]:
    """Vectors of `size` integers, with the distance that the noise is made for."""
    dp = opendp()
    domain = dp.vector_domain(dp.atom_domain(T=dp.i64), size=size)
    return domain, dp.l2_distance(T=dp.f64) if definition == "zcdp" else dp.l1_distance(T=dp.i64)


def _measure(definition: Definition) -> Any:  # noqa: ANN401
    dp = opendp()
    return dp.zero_concentrated_divergence() if definition == "zcdp" else dp.max_divergence()


def _typed(definition: Definition, distance: float) -> float | int:
    """L1 distances of counts are whole numbers."""
    return distance if definition == "zcdp" else math.ceil(distance)


def _checked(config: Config, counts: Counts) -> dict[tuple[str, str], list[int]]:
    """The plan's vectors as plain integers; their lengths are the public grid's (claim C1.4), or an error."""
    from phsafe.grid import level_rows  # noqa: PLC0415

    vectors = {}
    for tabulation, level, _ in config.measurements():
        key, size = (tabulation.name, level.key), len(level_rows(config, tabulation, level))
        if key not in counts or counts[key].shape != (size,) or counts[key].dtype.kind != "i":
            raise MechanismError(f"{key[0]}, {key[1]}: expected {size} whole numbers, one for each row of the grid")
        vectors[key] = counts[key].tolist()
    return vectors


def round_down(value: Fraction) -> float:
    """The largest float that is not above the value.

    >>> Fraction(round_down(Fraction(1, 10))) <= Fraction(1, 10)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _times_up(times: int, distance: float) -> float:
    """A product rounded up."""
    nearest = times * distance
    exact = times * Fraction(distance)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
