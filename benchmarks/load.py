"""Load: many releases on one ledger, sequentially and concurrently, and many concurrent users of the explorer page.

`python benchmarks/load.py releases [--after-another 200] [--at-once 20]` and
`python benchmarks/load.py explorer [--users 50] [--seconds 300]`. Each prints its figures and ends with 1 if
memory grows, `verify` finds a problem in the ledger, or a response isn't 200.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import phsafe
from phsafe.configs.config import Config
from phsafe.privacy.ledger import Ledger
from phsafe.releases.release_folder import Release

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data" / "small"
#: The most that memory may grow, as a share, from the second tenth of the releases to the last.
GROWTH = 0.05
#: The calls that a user of the page makes, with their relative frequencies.
CALLS = {"evaluate": 16, "finished": 8, "search": 2, "start": 2, "compare": 1}
#: Seconds between one user's calls, as when typing.
PAUSE = (0.2, 2.0)


def main() -> int:
    """Run one of the two benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    benchmarks = parser.add_subparsers(required=True)
    one = benchmarks.add_parser("releases")
    one.add_argument("--after-another", type=int, default=200)
    one.add_argument("--at-once", type=int, default=20)
    one.set_defaults(run=lambda a: releases(a.after_another, a.at_once))
    two = benchmarks.add_parser("explorer")
    two.add_argument("--users", type=int, default=50)
    two.add_argument("--seconds", type=float, default=300)
    two.set_defaults(run=lambda a: explorer(a.users, a.seconds))
    arguments = parser.parse_args()
    return int(not arguments.run(arguments))


# --- releases -----------------------------------------------------------------------------------------------------


def releases(after_another: int, at_once: int) -> bool:
    """Release a small config repeatedly in this process, then concurrently in separate processes."""
    config = Config.load(_two_states())
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        folder = Path(name)
        # The cap allows exactly these releases.
        ledger = Ledger.create(folder / "ledger", (after_another + at_once) * Fraction(config.total))
        file = folder / "config.json"
        file.write_text(json.dumps(_two_states()))
        memory, times = [], []
        for i in range(after_another):
            start = time.perf_counter()
            phsafe.release(config, DATA, folder / f"one{i}", ledger=ledger.path, skip_validation=True)
            times.append(time.perf_counter() - start)
            memory.append(_resident())
        grown = _growth(memory)
        series = ", ".join(f"{memory[i * (len(memory) - 1) // 10] / 2**20:.0f}" for i in range(11))
        print(f"{after_another} releases one after another: median {statistics.median(times):.2f} s, ", end="")
        print(
            f"slowest {max(times):.2f} s; memory in MB from first to last: {series} ({grown:+.1%})",
            flush=True,
        )
        start = time.perf_counter()
        command = [sys.executable, "-m", "phsafe", "release", file, DATA]
        ends = ["--ledger", ledger.path, "--skip-validation"]
        running = [
            subprocess.Popen(
                [*command, folder / f"at-once{i}", *ends], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for i in range(at_once)
        ]
        codes = [process.communicate() and process.returncode for process in running]
        print(f"{at_once} at once: {codes.count(0)} done in {time.perf_counter() - start:.0f} s", flush=True)
        charged = {entry.release_id for entry in ledger.charges()}
        released = {Release.open(path).release_id for path in folder.iterdir() if path.is_dir()}
        found = ledger.verify()
        print(
            f"ledger verify: {found or 'unmodified'}, {len(charged)} charges, {len(released)} complete releases, ",
            end="",
        )
        print(f"{ledger.read().left} left of {float(ledger.read().cap):.4f}")
        consistent = charged == released and len(released) == after_another + at_once and ledger.read().left == 0
        return consistent and not found and grown <= GROWTH and not any(codes)


def _two_states() -> dict[str, object]:
    document = json.loads((ROOT / "examples" / "us.json").read_text())
    budgets = {
        name: {
            key: budget if name in ("PH1_denom", "PH3") and key == "state_*" else 0 for key, budget in levels.items()
        }
        for name, levels in document["privacy_budget"].items()
    }
    return document | {"state_filter": ["44", "56"], "privacy_budget": budgets}


def _growth(memory: list[int]) -> float:
    """The growth from the second tenth to the last; after the first, everything is loaded."""
    tenth = max(1, len(memory) // 10)
    first, last = (statistics.median(part) for part in (memory[tenth : 2 * tenth] or memory[:1], memory[-tenth:]))
    return last / first - 1


def _resident(process: int | str = "self") -> int:
    """The resident memory of a process, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _processor(process: int) -> float:
    """The processor time that a process has used, in seconds; unlike the clock, it ignores what else is running."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- the explorer -------------------------------------------------------------------------------------------------


def explorer(users: int, seconds: float) -> bool:
    """Simulate users who open the page and change budgets, compare scenarios and run the joint estimate."""
    command = [sys.executable, "-m", "phsafe", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            address, token = server.stdout.readline().strip().split("/#token=")
            before, spent = _resident(server.pid), _processor(server.pid)
            answers = asyncio.run(_crowd(int(address.rpartition(":")[2]), token, users, seconds))
            after, spent = _resident(server.pid), _processor(server.pid) - spent
        finally:
            server.terminate()
    times = sorted(answer[1] for answer in answers)
    wrong = [answer for answer in answers if answer[2] != 200]
    at = lambda share: 1000 * times[min(len(times) - 1, int(share * len(times)))]  # noqa: E731
    print(f"{users} users for {seconds:.0f} s: {len(answers)} answers, {len(wrong)} other than 200; ", end="")
    print(
        f"median {at(0.5):.0f} ms, 95 % {at(0.95):.0f} ms, 99 % {at(0.99):.0f} ms, slowest {at(1):.0f} ms; ",
        end="",
    )
    print(f"memory of the server {before / 2**20:.0f} → {after / 2**20:.0f} MB; ", end="")
    print(f"processor time {1000 * spent / max(1, len(answers)):.0f} ms an answer", flush=True)
    for call in CALLS:
        of = sorted(1000 * answer[1] for answer in answers if answer[0] == call)
        if of:
            print(f"  {call}: {len(of)} answers, median {statistics.median(of):.0f} ms, slowest {of[-1]:.0f} ms")
    return bool(answers) and not wrong


async def _crowd(port: int, token: str, users: int, seconds: float) -> list[tuple[str, float, int]]:
    status, start = await _ask(port, token, "start", {})
    assert status == 200, status
    first = json.loads(start)
    scenario, pins = first["scenarios"][0], first["pins"]
    end = time.monotonic() + seconds
    answers: list[tuple[str, float, int]] = []
    await asyncio.gather(*(_user(port, token, (scenario, pins), end, random.Random(i), answers) for i in range(users)))
    return answers


async def _user(
    port: int,
    token: str,
    shown: tuple[dict[str, object], list[object]],
    end: float,
    rng: random.Random,
    answers: list[tuple[str, float, int]],
) -> None:
    scenario, pins = shown
    while time.monotonic() < end:
        await asyncio.sleep(rng.uniform(*PAUSE))
        call = rng.choices(list(CALLS), list(CALLS.values()))[0]
        typed = json.loads(json.dumps(scenario))
        typed["entries"]["PH3"]["state_*"]["value"] = f"{rng.uniform(0.001, 0.9):.6f}"
        body = {"scenario": typed, "scenarios": [typed, scenario], "pins": pins, "words": "children wyoming"}
        started = time.perf_counter()
        status, _ = await _ask(port, token, call, body)
        answers.append((call, time.perf_counter() - started, status))


async def _ask(port: int, token: str, call: str, body: dict[str, object]) -> tuple[int, bytes]:
    """Make one call over a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = json.dumps(body).encode()
    head = f"POST /api/{call} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-phsafe-token: {token}\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


if __name__ == "__main__":
    sys.exit(main())
