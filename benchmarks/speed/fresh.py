"""What a fresh process costs: imports, and the first fit with kernels that were compiled before."""

import subprocess
import sys
import time

from benchmarks.core.results import NotMeasured

IMPORTS = {
    "import dpforest": "import dpforest",
    "from dpforest import DPForestClassifier": "from dpforest import DPForestClassifier",
    "of which scikit-learn's base": "import sklearn.base",
}
FIRST_FIT = """
import numpy as np
from dpforest import Classes, DPForestClassifier, Numeric, Schema
rng = np.random.default_rng({seed})
X = rng.standard_normal(({n_rows}, {n_features}), dtype=np.float32)
y = (X[:, 0] > 0).astype(int)
schema = Schema({{f"x{{index}}": Numeric(-4, 4) for index in range({n_features})}}, Classes([0, 1]), n_rows={n_rows})
DPForestClassifier(schema, epsilon=1.0, recipe={recipe!r}, n_trees={n_trees}, max_depth={depth}).fit(X, y)
"""


def import_runs(code: str, repeats: int) -> list[float]:
    """Seconds of an import as the process sees them, without the start of Python."""
    program = f"import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
    return [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(repeats)]


def first_fit_runs(repeats: int, **settings: int | str) -> list[float]:
    """Seconds of a whole process: start of Python, imports, a fit, the end. A run before them compiles what is not yet."""
    program = [sys.executable, "-c", FIRST_FIT.format(**settings)]
    runs = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        done = subprocess.run(program, capture_output=True, text=True)
        runs.append(time.perf_counter() - start)
        if done.returncode != 0:
            raise NotMeasured(f"the first fit failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return runs[1:]
