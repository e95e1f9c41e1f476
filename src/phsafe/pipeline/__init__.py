"""From a data source to results: validate, tabulate and release."""
