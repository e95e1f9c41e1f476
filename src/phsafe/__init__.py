"""PHSafe."""
