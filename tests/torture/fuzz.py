"""Reads mutated files in child processes whose memory is limited; whatever is not a clear refusal is a finding.

``python -m tests.torture.fuzz model 0 100`` is one batch; ``run`` starts batches and adds them up.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

KINDS = ("model", "schema", "budget")
BATCH = 1000
MOST_SECONDS = 2.0
MOST_BYTES = 200 << 20
ROOT = Path(__file__).parents[2]
# What must not happen while a file is read.
FORBIDDEN = {
    "exec", "compile", "pickle.find_class", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen",
    "socket.connect", "ctypes.dlopen", "sqlite3.enable_load_extension", "sqlite3.load_extension", "os.rename", "os.remove",
    "os.mkdir", "os.symlink", "shutil.rmtree",
}  # fmt: skip


def run(kind, n_files, say=lambda text: None, first_seed=0):
    """Read ``n_files`` mutated files of a kind; gives counts, the longest time, and findings."""
    total = {"files": 0, "refused": 0, "read": 0, "slowest": 0.0, "findings": []}
    for seed in range(first_seed, first_seed + n_files, BATCH):
        n_batch = min(BATCH, first_seed + n_files - seed)
        found = _batch(kind, seed, n_batch)
        for name in ("files", "refused", "read", "findings"):
            total[name] += found[name]
        total["slowest"] = max(total["slowest"], found["slowest"])
        say(f"fuzz {kind}: {total['files']} of {n_files} files, {len(total['findings'])} findings")
    return total


def _batch(kind, seed, n_batch):
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "tests.torture.fuzz", kind, str(seed), str(n_batch), folder]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60 + n_batch * MOST_SECONDS)
        if ended.returncode == 0:
            return json.loads(ended.stdout.splitlines()[-1])
        last = Path(folder, "seed").read_text() if Path(folder, "seed").exists() else "the first"
        finding = f"seed {last}: the process ended with {ended.returncode}: {ended.stderr[-500:]}"
        return {"files": n_batch, "refused": 0, "read": 0, "slowest": 0.0, "findings": [finding]}


def main(kind, seed, n_files, folder):
    warnings.simplefilter("ignore")
    case = {"model": ModelCase, "schema": SchemaCase, "budget": BudgetCase}[kind](Path(folder))
    case.warm()
    watch = Watch(Path(folder))
    limit_memory()
    found = {"files": 0, "refused": 0, "read": 0, "slowest": 0.0, "findings": []}
    for one in range(seed, seed + n_files):
        Path(folder, "seed").write_text(str(one))
        path = case.make(one)
        began = time.process_time()
        try:
            found["read" if watch.watched(case.read, path) else "refused"] += 1
        except BaseException:
            found["findings"].append(f"{kind} {one}: {traceback.format_exc()[-1500:]}")
        took = time.process_time() - began
        found["files"] += 1
        found["slowest"] = max(found["slowest"], took)
        if took > MOST_SECONDS:
            found["findings"].append(f"{kind} {one}: took {took:.1f} seconds")
        stray = case.strays()
        if stray:
            found["findings"].append(f"{kind} {one}: left files {stray}")
    print(json.dumps(found))


def limit_memory():
    """No more address space than now and a little."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_BYTES, now + MOST_BYTES))


class Watch:
    """Notices code that is run and files that are opened for writing while a file is read."""

    def __init__(self, folder):
        self.folder, self.on, self.seen = str(folder), False, []
        sys.addaudithook(self._hook)

    def _hook(self, event, arguments):
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {str(arguments)[:200]}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.seen.append(f"opened for writing: {str(arguments[0])[:200]}")

    def watched(self, read, path):
        self.on, self.seen = True, []
        try:
            return read(path)
        finally:
            self.on = False
            if self.seen:
                raise AssertionError("; ".join(self.seen))


class Case:
    """Sound files of a kind, how they are mutated, and what a reader does with them."""

    names: tuple[str, ...] = ()

    def __init__(self, folder):
        self.folder, self.seed = folder, 0

    def warm(self):
        for content in self.contents:
            assert self.read(self.put(*content))
        for seed in range(50):
            self.read(self.make(-1 - seed))

    def put(self, content, ending):
        path = self.folder / f"mutated.{ending}"
        path.write_bytes(content)
        return path

    def strays(self):
        return sorted({path.name for path in self.folder.iterdir()} - {"seed", "mutated", *self.names})


def is_refused(work):
    from dpforest.errors import DPForestError

    try:
        work()
    except DPForestError:
        return True
    return False


class ModelCase(Case):
    names = ("mutated.dpf",)

    def __init__(self, folder):
        super().__init__(folder)
        from tests.torture.samples import model_files, rows

        self.contents, self.rows = [(content, "dpf") for content in model_files()], rows()

    def make(self, seed):
        from tests.torture.mutations import mutated_model

        self.seed = seed
        return self.put(mutated_model([content for content, _ in self.contents], seed), "dpf")

    def read(self, path):
        from dpforest import load_model
        from dpforest.show.report.content import report_content

        models = []
        if is_refused(lambda: models.append(load_model(path, allow_changed=self.seed % 2 == 1))):
            return False
        model = models[0]
        str(model.privacy_), repr(model), model.ledger_.spent, model.ledger_.entries(), model.feature_importances_

        def use():
            model.predict(self.rows)
            model.forest_.rules_text()
            model.to_json()
            model.to_sql("t")
            model.to_sklearn()
            report_content(model)

        return not is_refused(use)


class SchemaCase(Case):
    names = ("mutated.json", "mutated.toml")

    def __init__(self, folder):
        super().__init__(folder)
        from tests.torture.samples import schema_files

        self.files = schema_files()
        self.contents = [(content, name.rpartition(".")[2]) for name, content in self.files.items()]

    def make(self, seed):
        from tests.torture.mutations import mutated_schema

        return self.put(*mutated_schema(self.files, seed))

    def read(self, path):
        from dpforest import Schema
        from dpforest.schema.domain import Domain, Grid

        def use():
            schema = Schema.from_file(path)
            repr(schema)
            Schema.from_dict(schema.to_dict())
            Domain.of(schema, Grid())

        return not is_refused(use)


class BudgetCase(Case):
    # Journals that the store itself may leave beside it.
    names = ("mutated.db", "mutated.db-journal", "mutated.db-wal", "mutated.db-shm", "forged.db")

    def __init__(self, folder):
        super().__init__(folder)
        from tests.torture.samples import budget_files

        self.contents = budget_files()

    def make(self, seed):
        from tests.torture.mutations import mutated_budget

        (self.folder / "forged.db").unlink(missing_ok=True)
        return self.put(*mutated_budget(self.contents, seed, self.folder / "forged.db"))

    def put(self, content, log):
        from dpforest.budget import store

        # What a process has read of the file before is not the question here.
        for kept in store._kept.values():
            store._close(kept)
        store._kept.clear()
        for name in self.names:
            (self.folder / name).unlink(missing_ok=True)
        if log:
            (self.folder / "mutated.db-wal").write_bytes(log)
        return super().put(content, "db")

    def read(self, path):
        from tests.torture.samples import use_budget

        return not is_refused(lambda: use_budget(path))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
