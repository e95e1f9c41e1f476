"""How many households, vacant units and group quarters each chunk of each state holds; whole numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from phsafe.errors import PHSafeError
from phsafe.schema import MAFID, PUERTO_RICO, STATES, US_STATES
from phsafe.synthesis.profile import Profile, profiles
from phsafe.synthesis.quarters import MEAN_SIZE_E2, PEOPLE_PER_10000

#: Households composed at once: memory depends on this and on the number of processes, not on the total.
CHUNK = 250_000
MOST_HOUSEHOLDS = 400_000_000
MOST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Chunk:
    """A piece of a state that can be made without knowing any other piece."""

    seed: int
    state: str
    number: int
    households: int
    vacant: int
    quarters: int
    first_position: int
    first_mafid: int

    @property
    def units(self) -> int:
        """All its units: occupied, vacant and group quarters."""
        return self.households + self.vacant + self.quarters


def parse_states(states: str | Sequence[str]) -> tuple[str, ...]:
    """FIPS codes in order, from "us", "pr", or codes with commas between them.

    >>> parse_states("56, 44"), len(parse_states("us")), parse_states("pr")
    (('44', '56'), 51, ('72',))
    """
    words = states.split(",") if isinstance(states, str) else list(states)
    words = [word.strip() for word in words]
    if [word.lower() for word in words] == ["us"]:
        return US_STATES
    if [word.lower() for word in words] == ["pr"]:
        return (PUERTO_RICO,)
    unknown = sorted({word for word in words if word not in STATES})
    if unknown or not words:
        got = ", ".join(repr(word) for word in unknown) or "nothing"
        raise PHSafeError(f"states: expected 'us', 'pr' or two-digit FIPS codes such as 44,56, got {got}")
    if PUERTO_RICO in words and len(set(words)) > 1:
        raise PHSafeError("states: Puerto Rico (72) is a run of its own; leave out 72 or the other states")
    return tuple(sorted(set(words)))


def plan(households: int, states: Sequence[str], seed: int) -> list[Chunk]:
    """All chunks in the order in which they are written."""
    if not 1 <= households <= MOST_HOUSEHOLDS:
        raise PHSafeError(f"households: expected 1 to {MOST_HOUSEHOLDS}, got {households}")
    if not 0 <= seed <= MOST_SEED:
        raise PHSafeError(f"seed: expected a whole number from 0 to {MOST_SEED}, got {seed}")
    chosen = [profiles()[state] for state in states]
    chunks: list[Chunk] = []
    mafid = MAFID.codes[0]
    assert isinstance(mafid, int)
    for profile, count in zip(chosen, share_out(households, [p.weight for p in chosen]), strict=True):
        for chunk in _chunks(profile, count, seed, mafid):
            chunks.append(chunk)
            mafid += chunk.units
    if mafid > len(MAFID.codes) + int(MAFID.codes[0]):
        raise PHSafeError(f"households: {households} need more addresses than there are MAFIDs; ask for fewer")
    return chunks


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers that add up to `total`, in proportion to the weights (largest remainders).

    >>> share_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    everything = sum(weights)
    shares = [total * weight // everything for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % everything), i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


def _chunks(profile: Profile, households: int, seed: int, mafid: int) -> list[Chunk]:
    """A state's chunks, all of about the same size."""
    vacant_e3 = int(Decimal(str(profile["VACANT_PCT"])) * 1000)
    vacant = _rounded(households * vacant_e3, 100_000 - vacant_e3)
    # people in households / 10**4 × share in group quarters / 10**4, over the average size / 10**2
    quarters = _rounded(households * profile.size_e4 * PEOPLE_PER_10000, 10**6 * MEAN_SIZE_E2)
    pieces = -(-households // CHUNK)
    chunks = []
    position = 0
    for number in range(pieces):
        here, empty, others = (
            total * (number + 1) // pieces - total * number // pieces for total in (households, vacant, quarters)
        )
        chunk = Chunk(seed, profile.state, number, here, empty, others, position, mafid + position)
        chunks.append(chunk)
        position += chunk.units
    return chunks


def _rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
