"""Sensitivity, noise, accounting and the ledger. Nothing here can read data or files other than the ledger."""
