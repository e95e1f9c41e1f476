"""Noise, privacy accounting and the ledger. The only file this package touches is the ledger; it reads no data."""
