"""Operating-system services: atomic writes, scratch folders, worker processes, signals and progress reporting."""
