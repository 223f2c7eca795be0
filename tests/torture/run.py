"""All of it in full: ``python -m tests.torture.run`` (``make torture``). Prints a table at the end."""

import os
import platform
import subprocess
import sys
import time
from functools import partial

from tests.torture import fuzz, victims

N_FILES, N_KILLS, N_RACES, N_FITS = (
    int(os.environ.get(f"DPFOREST_TORTURE_{name}", usual))
    for name, usual in (("FILES", 10_000), ("KILLS", 1_000), ("RACES", 100), ("FITS", 200))
)
N_PROCESSES = 32


def say(text):
    print(f"\r{time.strftime('%H:%M:%S')} {text:<90}", end="", file=sys.stderr, flush=True)


def killed():
    found = victims.in_a_folder(victims.kills, N_KILLS, say)
    return f"{found['runs']} runs; {found['released']} had released something: all charged; " + (
        f"{found['settled']} settled, {found['reserved']} stand reserved, {found['models']} whole models, no partial one"
    )


def raced():
    for place in range(N_RACES):
        victims.in_a_folder(victims.race, N_PROCESSES, 1 + place % 7, real_fits=place % 2 == 0)
        say(f"races: {place + 1} of {N_RACES}")
    return f"{N_RACES} races of {N_PROCESSES} processes: never overspent, never a deadlock"


def grown():
    grown_by = victims.in_a_folder(victims.memory_of_fits, N_FITS)
    assert grown_by < 10 << 20, f"memory grew by {grown_by >> 20} MB"
    return f"{N_FITS} fits: memory grew by {grown_by / (1 << 20):.1f} MB"


def fuzzed(kind):
    found = fuzz.run([kind], N_FILES, say)[kind]
    assert not found["findings"], "\n".join(found["findings"][:5])
    return f"{found['files']} files: {found['refused']} refused, {found['read']} read; slowest {found['slowest']:.2f} s"


def faults():
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/torture", "tests/budget/test_budget_commands.py", "-rs"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=fuzz.ROOT)
    assert ended.returncode == 0, ended.stdout[-3000:]
    return ended.stdout.strip().splitlines()[-1]


PARTS = {
    "killed with SIGKILL": killed,
    "races for the last epsilon": raced,
    "memory": grown,
    **{f"fuzzed {kind}s": partial(fuzzed, kind) for kind in fuzz.KINDS},
    "disk full, read-only, deleted, damaged": faults,
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
    os.chdir(fuzz.ROOT)
    sys.exit(main(sys.argv[1:]))
