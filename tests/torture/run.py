"""All of it in full: ``python -m tests.torture.run`` (``make torture``). Prints a table at the end."""

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.torture import fuzz, victims

N_FILES = int(os.environ.get("DPFOREST_TORTURE_FILES", 10_000))
N_KILLS = int(os.environ.get("DPFOREST_TORTURE_KILLS", 1_000))
N_RACES = int(os.environ.get("DPFOREST_TORTURE_RACES", 100))
N_FITS = int(os.environ.get("DPFOREST_TORTURE_FITS", 200))
N_PROCESSES = 32


def say(text):
    print(f"\r{time.strftime('%H:%M:%S')} {text:<90}", end="", file=sys.stderr, flush=True)


def killed():
    with tempfile.TemporaryDirectory() as folder:
        found = victims.kills(folder, N_KILLS, say)
    return f"{found['runs']} runs; {found['released']} had released something: all charged; " + (
        f"{found['settled']} settled, {found['reserved']} stand reserved, {found['models']} whole models, no partial one"
    )


def raced():
    for place in range(N_RACES):
        with tempfile.TemporaryDirectory() as folder:
            victims.race(folder, N_PROCESSES, 1 + place % 7, real_fits=place % 2 == 0)
        say(f"races: {place + 1} of {N_RACES}")
    return f"{N_RACES} races of {N_PROCESSES} processes: never overspent, never a deadlock"


def grown():
    with tempfile.TemporaryDirectory() as folder:
        grown_by = victims.memory_of_fits(folder, N_FITS)
    assert grown_by < 10 << 20, f"memory grew by {grown_by >> 20} MB"
    return f"{N_FITS} fits: memory grew by {grown_by / (1 << 20):.1f} MB"


def fuzzed(kind):
    found = fuzz.run(kind, N_FILES, say)
    assert not found["findings"], "\n".join(found["findings"][:5])
    return f"{found['files']} files: {found['refused']} refused, {found['read']} read; slowest {found['slowest']:.2f} s"


def faults():
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/torture", "tests/budget/test_hostile_budgets.py", "-rs"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=fuzz.ROOT)
    assert ended.returncode == 0, ended.stdout[-3000:]
    return ended.stdout.strip().splitlines()[-1]


PARTS = {
    "killed with SIGKILL": killed,
    "races for the last epsilon": raced,
    "memory": grown,
    "fuzzed models": lambda: fuzzed("model"),
    "fuzzed schemas": lambda: fuzzed("schema"),
    "fuzzed budgets": lambda: fuzzed("budget"),
    "disk full, read-only, deleted, damaged, clock set back": faults,
}


def main(words):
    """Run the parts whose titles hold one of the words, or all."""
    lines, failed = [], False
    for title, part in PARTS.items():
        if words and not any(word in title for word in words):
            continue
        began = time.perf_counter()
        try:
            text = part()
        except AssertionError as error:
            failed, text = True, f"FAILED: {error}"
        lines.append(f"| {title} | {text} | {time.perf_counter() - began:.0f} s |")
    print(file=sys.stderr)
    print(
        f"{time.strftime('%Y-%m-%d')}, {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}\n"
    )
    print("| what | found | took |\n|---|---|---|")
    print("\n".join(lines))
    return int(failed)


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[2])
    sys.exit(main(sys.argv[1:]))
