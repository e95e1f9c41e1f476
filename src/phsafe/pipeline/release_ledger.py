"""Which ledger a release is charged to: one that exists, or, on request, a new one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from phsafe.configs.config import Config
from phsafe.configs.names import coverage
from phsafe.errors import PHSafeError
from phsafe.model.exact_numbers import Exact, text
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError, Population
from phsafe.privacy.ledger_file import exists, lost, traces
from phsafe.privacy.ledger_policy import check_ceiling
from phsafe.readers import DataSource


@dataclass(frozen=True)
class LedgerChoice:
    """The ledger of a release.

    Attributes:
        path: The ledger file.
        is_new: Whether to create it.
        cap: The cap of a new ledger, in ρ; by default the loss of the release.
        population: Whom a new ledger is for; by default as the config describes them.
        max_rho: The largest unbounded loss allowed for the release, in ρ; a new ledger keeps it.
    """

    path: Path
    is_new: bool = False
    cap: Exact | None = None
    population: str | None = None
    max_rho: Exact | None = None


def default_ledger(data: DataSource) -> Path:
    """The default ledger of a data folder: beside it, with its name and the suffix ``.ledger``.

    Links are resolved, so that a folder has one ledger however it is reached.
    """
    if isinstance(data, Mapping):
        raise PHSafeError("frames in memory have no default ledger; name one with ledger=")
    if "://" in str(data):
        raise PHSafeError(f"{data}: a remote address has no default ledger; name a local file with --ledger")
    folder = Path(data).resolve()
    return folder.parent / f"{folder.name}.ledger"


def population_of(config: Config) -> Population:
    """Whom a release of a config is about."""
    return Population(config.population or coverage(config), config.states, config.population is not None)


def open_ledger(choice: LedgerChoice, config: Config, loss: Loss) -> Ledger:
    """Open the ledger of a release, or create it on request; raise a `LedgerError` if the loss can't be charged."""
    ledger = _created(choice, config, loss) if choice.is_new else _existing(choice, loss)
    ledger.check(loss, population_of(config), choice.max_rho)
    return ledger


def _existing(choice: LedgerChoice, loss: Loss) -> Ledger:
    if choice.cap is not None or choice.population is not None:
        raise LedgerError("a cap and a population describe a new ledger: add --new-ledger, or leave them out")
    if not exists(choice.path):
        if traces(choice.path):
            raise LedgerError(lost(choice.path))
        raise LedgerError(
            f"{choice.path}: there is no ledger at this path, and a release doesn't create one by itself; correct the "
            f"path, or type phsafe ledger init {shlex.quote(str(choice.path))} --cap {text(loss.as_zcdp().unbounded)} "
            "(the same as --new-ledger here, or new_ledger=True in Python)"
        )
    return Ledger.open(choice.path)


def _created(choice: LedgerChoice, config: Config, loss: Loss) -> Ledger:
    """Create the ledger; if a run with the same options made it and charged nothing, use that one.

    Its unit is ρ for both privacy definitions, so that releases of both kinds can share it (claim C13).
    """
    needed = loss.as_zcdp().unbounded
    cap = needed if choice.cap is None else Fraction(choice.cap)
    population = choice.population or population_of(config).text
    check_ceiling(loss, choice.max_rho)
    if cap < needed:
        raise LedgerError(f"expected a cap of at least {text(needed)} ρ, the loss of this release, got {text(cap)}")
    if config.population not in (None, population):
        raise LedgerError(f"expected the population of the config, {config.population}, got {population}")
    if not exists(choice.path):
        return Ledger.create(choice.path, cap, population=population, states=config.states, max_rho=choice.max_rho)
    now = Ledger.open(choice.path).read()
    if now.entries or (now.cap, now.population, now.states) != (cap, population, config.states):
        raise LedgerError(f"{choice.path}: expected no ledger yet, got one; leave out --new-ledger to charge it")
    return Ledger(choice.path)
