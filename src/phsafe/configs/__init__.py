"""The parameters of a run (budgets, truncation thresholds, levels, states) and the public grid they define."""
