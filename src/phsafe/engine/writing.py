"""One thread at a time makes, compares and writes expressions: Ibis' own caches know nothing of threads."""

from __future__ import annotations

import threading

WRITING = threading.RLock()
