"""Exact counting: one kernel that counts partitions in key order. Its results are confidential."""
