"""The plan: how many households, vacant units and group quarters go into each chunk of each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from phsafe.errors import PHSafeError
from phsafe.model.schema import MAFID, PUERTO_RICO, STATES, US_STATES, state_code
from phsafe.synthetic.group_quarters import MEAN_SIZE_E2, PEOPLE_PER_10000
from phsafe.synthetic.state_profiles import Profile, profiles

#: Households per chunk: memory use depends on this and on the number of processes, not on the total.
CHUNK = 250_000
MOST_HOUSEHOLDS = 400_000_000
MOST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Chunk:
    """A part of a state that can be generated independently of all others."""

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
        """The number of units: occupied, vacant and group quarters."""
        return self.households + self.vacant + self.quarters


def parse_states(states: str | Sequence[str]) -> tuple[str, ...]:
    """Parse "us", or states by FIPS code, postal code or name, into sorted FIPS codes.

    >>> parse_states("56, 44"), parse_states("Wyoming,RI"), len(parse_states("us")), parse_states("pr")
    (('44', '56'), ('44', '56'), 51, ('72',))
    """
    codes = states.split(",") if isinstance(states, str) else list(states)
    codes = [state_code(code.strip()) for code in codes]
    if [code.lower() for code in codes] == ["us"]:
        return US_STATES
    unknown = sorted({code for code in codes if code not in STATES})
    if unknown or not codes:
        got = ", ".join(repr(code) for code in unknown) or "nothing"
        raise PHSafeError(f"states: expected 'us', 'pr' or states such as 44,56 or RI,WY, got {got}")
    if PUERTO_RICO in codes and len(set(codes)) > 1:
        raise PHSafeError("states: Puerto Rico (72) must be generated separately; leave out 72 or the other states")
    return tuple(sorted(set(codes)))


def plan(households: int, states: Sequence[str], seed: int) -> list[Chunk]:
    """List all chunks in the order in which they are written."""
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
        raise PHSafeError(f"households: {households} would need more addresses than there are MAFIDs; ask for fewer")
    return chunks


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Split `total` into whole numbers in proportion to the weights, by largest remainder.

    >>> share_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    all_weight = sum(weights)
    shares = [total * weight // all_weight for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % all_weight), i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


def _chunks(profile: Profile, households: int, seed: int, mafid: int) -> list[Chunk]:
    """Split a state into chunks of about the same size."""
    vacant_e3 = int(Decimal(str(profile["VACANT_PCT"])) * 1000)
    vacant = _rounded(households * vacant_e3, 100_000 - vacant_e3)
    # people in households / 10**4 × share in group quarters / 10**4, over the average size / 10**2
    quarters = _rounded(households * profile.size_e4 * PEOPLE_PER_10000, 10**6 * MEAN_SIZE_E2)
    parts = -(-households // CHUNK)
    chunks = []
    position = 0
    for number in range(parts):
        occupied, empty, group = (
            total * (number + 1) // parts - total * number // parts for total in (households, vacant, quarters)
        )
        chunk = Chunk(seed, profile.state, number, occupied, empty, group, position, mafid + position)
        chunks.append(chunk)
        position += chunk.units
    return chunks


def _rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
