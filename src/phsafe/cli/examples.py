"""Examples of every command, shown by its `--help` and in the documentation."""

from __future__ import annotations

#: Command → what to type after it, with what it does.
EXAMPLES: dict[str, dict[str, str]] = {
    "demo": {"": "every step on two made-up states, in a new folder phsafe-demo"},
    "synth": {"data --households 20000 --states RI,WY": "made-up data for two states"},
    "pums": {"data psam_p44.csv psam_h44.csv --expand": "Rhode Island, with households repeated by weight"},
    "validate": {"config.json data": "every problem in the data"},
    "tabulate": {
        "config.json data counts": "exact counts, not private",
        "config.json data tables --finished": "exact PH1 to PH8, not private",
    },
    "release": {
        "config.json data release --new-ledger": "the first release of a population",
        "config.json data release --ledger population.ledger": "a later release, on the same ledger",
    },
    "accuracy": {"config.json data study --trials 20": "errors of 20 simulated releases of public data"},
    "check": {"release --ledger population.ledger": "is it complete, and was it charged?"},
    "estimate": {
        "release tables": "PH1 to PH8 with 90 % intervals",
        "release tables --draws 100 --sdmx": "also joint draws, and SDMX-CSV",
    },
    "interval": {
        "release 'PH3[WY, 1] + PH3[CO, 1]'": "a sum of two states",
        "release 'PH1[WY, 1] - PH1[RI, 1]'": "a difference: more than noise if the interval excludes 0",
    },
    "report": {"release report.html --estimates tables": "one page to publish with the release"},
    "registry": {"release entry.yaml": "an entry for the OpenDP deployments registry"},
    "config": {"us > config.json": "the 2020 parameters, to start from"},
    "budget": {
        "config.json": "privacy loss and margins of error",
        "config.json --compare": "the same in every sensitivity mode",
    },
    "solve": {"config.json targets.toml solved.json": "a config that meets margin-of-error targets"},
    "explore": {"config.json": "open PHExplore in your browser, with this config"},
    "workbook": {"config.json budget.xlsx": "a workbook with the figures of this config"},
    "audit": {"--trials 100000": "more trials, for stronger lower bounds"},
    "ledger init": {"population.ledger --cap 2": "a ledger with a cap of ρ = 2"},
    "ledger show": {"population.ledger": "what has been spent, and by which releases"},
    "ledger verify": {"population.ledger": "have its entries been changed?"},
    "ledger amend": {"file.ledger --cap 3 --by 'A. Name' --reason 'Board, 3 May'": "raise the cap"},
    "ledger import": {"file.ledger --amount 1.25 --by 'A. Name' --reason 2020": "what was spent before this ledger"},
    "ledger note": {"file.ledger --by 'A. Name' --text 'Moved to a server'": "a remark"},
}
