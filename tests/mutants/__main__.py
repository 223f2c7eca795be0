"""``python -m tests.mutants [NAME …] [--jobs N]``: which test notices each mistake, and after how many seconds."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutants import MUTANTS, ROOT

PYTEST = (sys.executable, "-m", "pytest", "-xq", "-n0", "-pno:cacheprovider", "-m", "not site and not server and not night")


def run(tests, sources):
    """Whether tests fail with the library of a folder, and the first that does, or else what pytest said."""
    command, paths = (*PYTEST, *(f"tests/{test}" for test in tests)), {**os.environ, "PYTHONPATH": str(sources)}
    ended = subprocess.run(command, cwd=ROOT, env=paths, capture_output=True, text=True)
    failed = re.search(r"^(?:FAILED|ERROR) tests/([\w/.:]+)", ended.stdout, re.MULTILINE)
    return {0: False, 1: True}.get(ended.returncode), failed[1] if failed else ended.stdout[-300:]


def forget_kernels(package, file):
    """Take away compiled kernels that call what a file defines: numba looks only at the file of the kernel itself."""
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    changed, found = {package / file}, set()
    while found != changed:
        found = set(changed)
        modules = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in found]
        changed |= {path for path, text in texts.items() if "@njit" in text and any(f"from {m} " in text for m in modules)}
    for kernel in (kernel for path in changed for kernel in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]")):
        kernel.unlink()


def judged(mutant):
    """The test that kills a mutant, None if none does; prints what was found."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(shutil.copytree(ROOT / "src", Path(folder, "src"))) / "dpforest"
        path, begin = package / mutant.file, time.monotonic()
        path.write_text(path.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
        forget_kernels(package, mutant.file)
        fails, test = run(mutant.tests.split(), package.parent)
    said = {True: f"killed by {test}", False: "SURVIVED", None: f"NOT JUDGED: {test}"}[fails]
    print(f"{mutant.name}: {said} ({time.monotonic() - begin:.0f} s)", flush=True)
    return test if fails else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *(mutant.name for mutant in MUTANTS)])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    with ThreadPoolExecutor(given.jobs) as pool:
        killers = [*pool.map(judged, [mutant for mutant in MUTANTS if not given.names or mutant.name in given.names])]
    fails, test = run(sorted({*killers} - {None}), ROOT / "src") if any(killers) else (False, "")
    sys.exit(None in killers if fails is False else f"FAILS WITHOUT ANY MUTANT: {test}")
