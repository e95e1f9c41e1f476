"""The noise mechanism: OpenDP's exact discrete Gaussian and geometric samplers, without a seed, and composition.

A run is one OpenDP composition over the exact counts (claim C8). Inside it, each planned measurement has a composition
of its own over its own count vector, which allows one query at its own budget. So OpenDP itself refuses a measurement
that is not planned, that costs more than planned, or that is repeated. Random numbers come from the operating system;
there is no seed.

Integers can't overflow: OpenDP adds noise in arbitrary precision and then clamps the sum to 64 bits, which is
postprocessing (claim C11). Budgets whose noise could come near that limit are refused in advance, based on the config
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config, Measurement
from phsafe.errors import ConfigError, PHSafeError
from phsafe.privacy_math.margins import geometric_variance

if TYPE_CHECKING:
    from phsafe.configs.grid import Counts
    from phsafe.privacy_math.sensitivity import Definition

#: (tabulation, level key, the cells of a block of the level).
BlockKey = tuple[str, str, tuple[int, ...]]
DISTRIBUTIONS: Mapping[Definition, str] = {"zcdp": "Discrete Gaussian", "puredp": "Two-Sided Geometric"}
#: Noise of this scale exceeds 64 bits with probability below e^(−1000), for any count.
MAX_SCALE = 2.0**52
#: The scale computed here differs from the one OpenDP's map accepts by a few float steps at most; more is an error.
_MAX_STEPS = 64
#: Cache size. A config has many measurements but few distinct calibrations.
CALIBRATIONS = 1024


class MechanismError(PHSafeError):
    """A measurement is not allowed by the plan or by its budget."""


@dataclass(frozen=True)
class Noise:
    """The noise of one measurement: its distribution, its scale (σ, or b of the geometric) and the printed variance.

    For the discrete Gaussian, `variance` is the parameter σ², as in the paper and the 2020 files.
    """

    distribution: str
    scale: float
    variance: float


def expected_noise(config: Config, measurement: Measurement) -> tuple[Noise, ...]:
    """Calibrate the noise of a measurement in exact arithmetic, without loading OpenDP. Used for plans and budgets.

    The scale is the smallest float with Δ²/(2σ²) ≤ ρ (claim C6) or Δ/b ≤ ε (claim C10) in exact rationals, with Δ
    rounded up to a float and the budget rounded down. `noise_of` checks it against OpenDP's privacy map.

    Returns:
        The noise of each block of the level, which is measured by itself (claim C18).

    """
    noises = []
    for distance, budget in _calibrations(config, measurement):
        if not _approximate_scale(config.privacy, distance, budget) <= MAX_SCALE:
            raise ConfigError(
                f"{measurement.tabulation.name}, {measurement.level.key}: expected a budget whose noise fits "
                f"64-bit integers, got {measurement.budget}"
            )
        noises.append(_calibrated_noise(config.privacy, distance, budget))
    return tuple(noises)


@lru_cache(CALIBRATIONS)
def _calibrated_noise(definition: Definition, distance: float, budget: float) -> Noise:
    accepts = _exact_map(definition, distance, budget)
    return _noise(definition, _smallest_scale(_approximate_scale(definition, distance, budget), accepts))


def _approximate_scale(definition: Definition, distance: float, budget: float) -> float:
    """The scale of the noise, up to rounding."""
    return distance / (math.sqrt(2 * budget) if definition == "zcdp" else budget)


def noise_of(config: Config, measurement: Measurement) -> tuple[Noise, ...]:
    """The noise that a release uses for each block of a measurement: the smallest scale that OpenDP's map accepts."""
    expected = expected_noise(config, measurement)
    noises = []
    for noise, calibration in zip(expected, _calibrations(config, measurement), strict=True):
        accepts = partial(_accepts, config.privacy, *calibration)
        noises.append(_noise(config.privacy, _smallest_scale(noise.scale, accepts)))
    return tuple(noises)


@lru_cache(CALIBRATIONS)
def _accepts(definition: Definition, distance: float, budget: float, scale: float) -> bool:
    """Whether noise of this scale meets the budget according to OpenDP's privacy map."""
    return bool(make_noise(definition, 1, scale).map(_typed(definition, distance)) <= budget)


def make_noise(definition: Definition, size: int, scale: float) -> Any:  # noqa: ANN401
    """Build OpenDP's measurement that adds discrete Gaussian or two-sided geometric noise to `size` integers."""
    dp = opendp()
    make = dp.measurements.make_gaussian if definition == "zcdp" else dp.measurements.make_laplace
    return make(*_space(definition, size), scale=scale)


class Session:
    """Holds the exact counts of a run and returns nothing but its planned noisy measurements, each once."""

    def __init__(self, config: Config, counts: Counts) -> None:
        dp = opendp()
        self._config = config
        vectors = _checked(config, counts)
        measure = _privacy_measure(config.privacy)
        # Adding or removing one person record is distance 1: the paper's unbounded neighbours.
        space = (dp.domains.user_domain("exact counts", lambda _: True), dp.metrics.user_distance("person records"))
        plan = [
            ((m.tabulation.name, m.level.key, block.cells), distance, budget)
            for m in config.measurements()
            for block, (distance, budget) in zip(
                config.blocks(m.tabulation, m.level), _calibrations(config, m), strict=True
            )
        ]
        budgets = [budget for _, _, budget in plan]
        composition = dp.combinators.make_adaptive_composition(*space, measure, d_in=1, d_mids=budgets)
        #: The sum of the unbounded losses of all blocks according to OpenDP, which is at least the loss of the run.
        self.total: float = composition.map(1)
        run = composition(vectors)
        #: The measurements completed so far, with the noise that was used for each block.
        self.completed: list[tuple[Measurement, tuple[Noise, ...]]] = []
        self._slots = {}
        for key, distance, budget in plan:
            size = len(vectors[key])
            tabulate = _tabulation(space, config.privacy, key, size, distance)
            once = dp.combinators.make_adaptive_composition(
                *_space(config.privacy, size), measure, d_in=_typed(config.privacy, distance), d_mids=[budget]
            )
            self._slots[key] = (run(tabulate >> once), size)

    def measure(self, measurement: Measurement) -> list[int]:
        """Return the noisy counts of a measurement, in the order of `grid.level_rows`.

        Raises:
            MechanismError: The measurement is not planned, was made before, or would cost more than planned.
        """
        dp = opendp()
        tabulation, level, _ = measurement
        name, noises = f"{tabulation.name}, {level.key}", noise_of(self._config, measurement)
        noisy: dict[int, list[int]] = {}
        for block, noise in zip(self._config.blocks(tabulation, level), noises, strict=True):
            key = (tabulation.name, level.key, block.cells)
            if key not in self._slots:
                raise MechanismError(f"{name}: refused, not in the plan of this run")
            slot, size = self._slots[key]
            try:
                drawn = list(slot(make_noise(self._config.privacy, size, noise.scale)))
            except dp.mod.OpenDPException as error:
                # A fixed message: OpenDP's own might contain data one day.
                why = "already measured" if "out of queries" in str(error) else "it would cost more than planned"
                raise MechanismError(f"{name}: refused, {why}") from None
            noisy |= {cell: drawn[i :: len(block.cells)] for i, cell in enumerate(block.cells)}
        self.completed.append((measurement, noises))
        return [count for group in zip(*(noisy[cell] for cell in tabulation.cells), strict=True) for count in group]


def open_session(config: Config, counts: Counts) -> Session:
    """Open a session over exact counts for the measurements of a config. Its total adds up all losses (claim C8)."""
    return Session(config, counts)


@cache
def opendp() -> Any:  # noqa: ANN401
    """Load OpenDP on first use, with user-defined components enabled.

    Its modules are imported one by one, because `opendp.prelude` would also import its scikit-learn and Polars extras.

    The OpenDP feature `honest-but-curious` means that the caller, not the library, is responsible for the privacy
    properties of user-defined components. Here there is one, `_tabulation`, proven in docs/privacy.md.
    """
    import opendp as dp  # noqa: PLC0415
    import opendp.combinators  # noqa: PLC0415
    import opendp.measurements  # noqa: PLC0415
    import opendp.transformations  # noqa: PLC0415

    dp.mod.enable_features("contrib", "honest-but-curious")
    return dp


def _tabulation(space: tuple[Any, Any], definition: Definition, key: BlockKey, size: int, distance: float) -> Any:  # noqa: ANN401
    """The OpenDP transformation from the exact counts to the count vector of one block of a level.

    Stability: adding or removing one person record moves the vector by at most Δ (claim C4, from C1 to C3, or C16
    where the structure of the level allows less; in the published mode claim C7; dropped persons and oversized
    households: claims C14 and C15; blind blocks: claims C17 and C18), and n records move it by at most n·Δ (triangle
    inequality).
    """

    def stability(records: int) -> float | int:
        return _typed(definition, _multiply_up(records, distance))

    return opendp().transformations.make_user_transformation(
        *space, *_space(definition, size), lambda vectors: vectors[key], stability
    )


def _calibrations(config: Config, measurement: Measurement) -> list[tuple[float, float]]:
    """For each block, Δ rounded up to a float, and the unbounded loss rounded down to a float."""
    tabulation, level, stated = measurement
    if not stated > 0:
        raise ConfigError(f"{tabulation.name}, {level.key}: expected a budget above 0")
    found = []
    for block in config.blocks(tabulation, level):
        unbounded, _ = block.delta.loss(config.privacy, block.share * Fraction(stated))
        found.append((block.delta.distance(config.privacy), round_down(unbounded)))
    return found


def _exact_map(definition: Definition, distance: float, budget: float) -> Callable[[float], bool]:
    """OpenDP's privacy map for integers in exact rationals: a function that tests whether a scale meets the budget."""
    delta, loss = Fraction(distance), Fraction(budget)
    if definition == "zcdp":
        return lambda scale: delta**2 <= 2 * loss * Fraction(scale) ** 2
    return lambda scale: delta <= loss * Fraction(scale)


def _smallest_scale(start: float, accepts: Callable[[float], bool]) -> float:
    """The smallest accepted scale, searched float by float from `start`. If a scale is accepted, so are larger ones."""
    scale, steps = start, 0
    while not accepts(scale) and steps < _MAX_STEPS:
        scale, steps = math.nextafter(scale, math.inf), steps + 1
    while accepts(math.nextafter(scale, 0.0)) and steps < _MAX_STEPS:
        scale, steps = math.nextafter(scale, 0.0), steps + 1
    if not accepts(scale):
        raise MechanismError("OpenDP's privacy map does not accept the expected noise; nothing was measured")
    return scale


def _noise(definition: Definition, scale: float) -> Noise:
    variance = float(Fraction(scale) ** 2) if definition == "zcdp" else geometric_variance(scale)
    return Noise(DISTRIBUTIONS[definition], scale, variance)


@cache
def _space(definition: Definition, size: int) -> tuple[Any, Any]:
    """OpenDP's domain of vectors of `size` integers, with the metric that the noise is calibrated to."""
    dp = opendp()
    domain = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"), size=size)
    return domain, dp.metrics.l2_distance(T="f64") if definition == "zcdp" else dp.metrics.l1_distance(T="i64")


def _privacy_measure(definition: Definition) -> Any:  # noqa: ANN401
    dp = opendp()
    return dp.measures.zero_concentrated_divergence() if definition == "zcdp" else dp.measures.max_divergence()


def _typed(definition: Definition, distance: float) -> float | int:
    """The distance in the type OpenDP expects: L1 distances of counts are integers."""
    return distance if definition == "zcdp" else math.ceil(distance)


def _checked(config: Config, counts: Counts) -> dict[BlockKey, list[int]]:
    """The count vectors of the planned blocks, refused unless a level has the public grid's length (claim C1.4)."""
    from phsafe.configs.grid import level_rows  # noqa: PLC0415

    vectors = {}
    for tabulation, level, _ in config.measurements():
        key, size = (tabulation.name, level.key), len(level_rows(config, tabulation, level))
        if key not in counts or counts[key].shape != (size,) or counts[key].dtype.kind != "i":
            raise MechanismError(f"{key[0]}, {key[1]}: expected {size} integers, one for each row of the grid")
        by_group, cells = counts[key].reshape(-1, len(tabulation.cells)), list(tabulation.cells)
        for block in config.blocks(tabulation, level):
            chosen = by_group[:, [cells.index(cell) for cell in block.cells]]
            vectors[*key, block.cells] = chosen.reshape(-1).tolist()
    return vectors


def round_down(value: Fraction) -> float:
    """Round a fraction down to a float.

    >>> Fraction(round_down(Fraction(1, 10))) <= Fraction(1, 10)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _multiply_up(times: int, distance: float) -> float:
    """A product, rounded up to a float."""
    nearest = times * distance
    exact = times * Fraction(distance)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
