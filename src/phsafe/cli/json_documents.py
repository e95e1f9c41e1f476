"""What `--json` prints: for each command, the keys of its document and their meaning. The documentation shows them."""

from __future__ import annotations

_FOLDER = {"folder": "the folder that was written"}
_FILE = {"file": "the file that was written"}
_ID = {"release_id": "the random ID of the release"}
_AMOUNTS = {
    "privacy": "zcdp (amounts are ρ) or puredp (ε)",
    "cap": "total unbounded loss allowed",
    "spent": "unbounded loss charged",
    "left": "unbounded loss left",
    "head": "hash of the last entry",
}
_LOSS = {"loss": "the unbounded privacy loss: ρ, or ε for pure DP", "loss_bounded": "the bounded privacy loss"}

#: Command → key → meaning. Keys may be added; none is renamed or removed.
DOCUMENTS: dict[str, dict[str, str]] = {
    "demo": _FOLDER | _ID | _LOSS,
    "synth": _FOLDER
    | {"households": "number of households", "states": "as given", "seed": "as given", "format": "parquet or csv"},
    "pums": _FOLDER
    | {
        "years": "the years of the files",
        "expanded": "whether households were repeated by weight",
        "has_housing": "whether housing files were given",
        "states": "for each state: STATE, HOUSEHOLDS, PEOPLE_IN_HOUSEHOLDS, VACANT_UNITS, PEOPLE_IN_GROUP_QUARTERS",
    },
    "validate": {
        "ok": "whether no finding is an error; if false, the exit code is 1",
        "notice": "that the report is not private",
        "rows": "number of rows of each table, and of households",
        "states": "for each state of the filter: persons, units, housing_units and households, and its control totals",
        "findings": "for each violated rule: severity, rule, table, column, rows, and for truncation the share",
    },
    "tabulate": _FOLDER
    | {
        "notice": "that the counts are not private",
        "finished": "whether these are finished tables",
        "truncated": "whether persons beyond the thresholds are left out",
        "rows": "number of rows of each file",
    },
    "release": _FOLDER
    | _ID
    | {"privacy": "zcdp or puredp", "sensitivity": "the sensitivity mode"}
    | _LOSS
    | {
        "rows": "number of rows of each tabulation",
        "ledger": "the population's ledger after the release: file, cap, left and head",
    },
    "accuracy": _FOLDER
    | {
        "as_stated": "whether the measured noise is as stated; if false, the exit code is 1",
        "trials": "number of simulated releases of each variant",
        "estimated": "number of them from which tables were estimated",
        "variants": "the variants of the config",
        "empty_regions": "regions in which no one was counted",
    },
    "check": {"folder": "the release folder"}
    | _ID
    | {"unmodified": "true; otherwise the command is refused", "ledger": "the ledger that was checked, or null"},
    "estimate": _FOLDER
    | _ID
    | {
        "method": "joint or independent",
        "target": "everybody, or truncated if people beyond the thresholds are left out",
        "tables": "the names of the tables",
        "left_out": "tables that can't be computed from this release, with the reason",
        "noise_test": "the test of whether the measurements agree within their noise, as in diagnostics.json",
    },
    "interval": {
        "EXPRESSION": "as given",
        "ESTIMATE": "its estimate",
        "LOWER_90": "the lower end of its 90 % interval",
        "UPPER_90": "the upper end",
        "STD_ERROR": "its standard error",
    },
    "report": _FILE | {"bytes": "its size"},
    "registry": _FILE | {"todo": "the fields to fill in"},
    "config": {"configs": "the names of the shipped configs; with a name, the document is the config itself"},
    "budget": {
        "total": "loss of the config: rho and rho_bounded, epsilon and epsilon_bounded, delta",
        "levels": "for each tabulation and level: tau, sensitivity, loss, sigma2 and moe, and blocks if it has two",
        "modes": "with --compare, instead of total and levels: for each sensitivity mode, this document",
        "published_accounted_tightly": "with --compare: total, and tabulations with their losses",
        "gains": "with --compare: for each mode, at_published_margins (its loss) and margins_at_published_loss (the "
        "smallest and largest ratio of margins at the same unbounded and bounded loss)",
        "at_published_loss": "with --compare: for each mode, tabulation and level, the MOE at the published unbounded "
        "loss; with --finished also with budgets solved for finished tables (structured, finished)",
        "finished": "with --finished: for each mode, tabulation and level, the MOE after joint estimation",
    },
    "solve": {
        "total": "sum of the stated budgets",
        "total_before": "the same for the given config",
        "weighted_squared_moe": "weighted sum of squared MOEs",
        "weighted_squared_moe_before": "the same for the given config",
        "preview": "with --for finished: rows (name, kind, table, level, line, before, after, ratio, limit and weight "
        "of each margin, worst first), and loss_before and loss_after (unbounded and bounded)",
    },
    "explore": {"link": "the address of the page; printed before the page is served"},
    "workbook": _FILE,
    "audit": {
        "false_alarm": "probability that a bound doesn't hold",
        "findings": "for each mechanism: its claim, the proven lower bound of its loss, and the verdict",
    },
    "ledger init": _FILE | {"key": "its private key", "public_key": "its public key"} | _AMOUNTS,
    "ledger amend": _FILE | _AMOUNTS,
    "ledger import": _FILE | _AMOUNTS,
    "ledger note": _FILE | _AMOUNTS,
    "ledger show": {
        "format": "2",
        "privacy": "zcdp (amounts are ρ) or puredp (ε)",
        "population": "the people it is for, or null",
        "states": "their states, or null",
        "cap": "total unbounded loss allowed",
        "max_rho": "the largest loss of one release, or null",
        "spent": "unbounded loss charged",
        "spent_bounded": "sum of the bounded losses",
        "left": "unbounded loss left",
        "head": "hash of the last entry",
        "public_key": "its public key",
        "supersedes": "the ledger that it replaces, or null",
        "entries": "for each entry: number, kind, time, version, user, host, hash, and the fields of its kind",
    },
    "ledger verify": {
        "file": "the ledger",
        "unmodified": "true; otherwise the command is refused",
        "releases": "number of releases charged",
        "head": "hash of the last entry",
    },
}  # fmt: skip
