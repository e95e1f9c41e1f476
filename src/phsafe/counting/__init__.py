"""Exact counts: one kernel over partitions in key order. Confidential."""
