"""Replay: with the same random numbers, the outputs of neighbours differ by exactly the difference of their counts.

So the noise doesn't depend on the counts, the output is count + noise and nothing else (claims C6, C8 and C10), and
every level has noise of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from phsafe.privacy import mechanism
from phsafe.privacy_audit.worst_cases import neighbours

SEED = 7


@pytest.fixture
def replay(monkeypatch):
    """Replace OpenDP's sampler with recorded noise that every session replays from the start; keep its privacy maps."""
    real = mechanism.make_noise
    asked: list[tuple[int, float]] = []

    def taped(definition, size, scale):
        dp = mechanism.opendp()
        measurement = real(definition, size, scale)

        def add(counts):
            asked.append((size, scale))
            tape = np.random.default_rng([SEED, len(asked) - 1]).normal(0, scale, size)
            return [int(c + round(t)) for c, t in zip(counts, tape, strict=True)]

        return dp.measurements.make_user_measurement(
            measurement.input_domain,
            measurement.input_metric,
            measurement.output_measure,
            add,
            measurement.map,
        )

    monkeypatch.setattr(mechanism, "make_noise", taped)

    def run(config, counts):
        asked.clear()
        session = mechanism.open_session(config, counts)
        outputs = {(m.tabulation.name, m.level.key): session.measure(m) for m in config.measurements()}
        return outputs, list(asked)

    return run


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("mode", ["published", "tight", "tight-bounded"])
def test_outputs_move_by_the_difference_of_the_counts(replay, definition, mode, bounded):
    pair = neighbours(3, definition, mode, ("0.5", "0.25"), bounded=bounded)
    runs = [replay(pair.config, counts) for counts in pair.counts]
    (first, asked), (second, asked_again) = runs
    assert asked == asked_again  # the same draws, of the same size and scale, in the same order
    assert len(asked) == 2 and asked[0][1] != asked[1][1]  # one draw for each level, each at its own scale
    moved = 0
    for key, values in first.items():
        difference = pair.counts[1][key] - pair.counts[0][key]
        assert (np.array(second[key]) - np.array(values) == difference).all()
        moved += int(np.abs(difference).sum())
    assert moved == 3 * 2 * (4 if bounded else 2) * 3  # worlds × levels × moves × τ


def test_the_output_is_count_plus_noise(replay):
    """With zero counts, the output is the recorded noise itself."""
    pair = neighbours(2, "zcdp", "tight", ("0.5", "0.5"))
    empty = {key: np.zeros_like(vector) for key, vector in pair.counts[0].items()}
    (outputs, _), (tape, _) = replay(pair.config, pair.counts[0]), replay(pair.config, empty)
    for key, vector in pair.counts[0].items():
        assert (np.array(outputs[key]) - np.array(tape[key]) == vector).all()
