"""Reads mutated files in child processes whose memory is limited; whatever is not a clear refusal is a finding.

``python -m tests.torture.fuzz model 0 100 FOLDER`` is one batch; ``run`` starts batches and adds them up.
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

from tests.budget.stores import forget
from tests.torture.mutations import mutated_budget, mutated_model, mutated_schema
from tests.torture.samples import budget_files, model_files, rows, schema_files, use_budget

from dpforest import Schema, load_model
from dpforest.errors import DPForestError
from dpforest.schema.domain import Domain, Grid
from dpforest.show.report.content import report_content

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


def nothing_found():
    return {"files": 0, "refused": 0, "read": 0, "slowest": 0.0, "findings": []}


def run(kinds, n_files, say=lambda text: None, first_seed=0):
    """Read ``n_files`` mutated files of each kind; gives for each its counts, the longest time, and findings."""
    total = {kind: nothing_found() for kind in kinds}
    for seed in range(first_seed, first_seed + n_files, BATCH):
        for kind, found in _batch(kinds, seed, min(BATCH, first_seed + n_files - seed)).items():
            slowest = max(total[kind]["slowest"], found["slowest"])
            total[kind] = {name: before + found[name] for name, before in total[kind].items()} | {"slowest": slowest}
            say(f"fuzz {kind}: {total[kind]['files']} of {n_files} files, {len(total[kind]['findings'])} findings")
    return total


def _batch(kinds, seed, n_batch):
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "tests.torture.fuzz", ",".join(kinds), str(seed), str(n_batch), folder]
        most_seconds = 60 + len(kinds) * n_batch * MOST_SECONDS
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=most_seconds)
        if ended.returncode == 0:
            return json.loads(ended.stdout.splitlines()[-1])
        last = Path(folder, "seed").read_text() if Path(folder, "seed").exists() else "the first"
        finding = f"seed {last}: the process ended with {ended.returncode}: {ended.stderr[-500:]}"
        return dict.fromkeys(kinds, nothing_found() | {"files": n_batch, "findings": [finding]})


def main(kinds, seed, n_files, folder):
    warnings.simplefilter("ignore")
    cases = {kind: CASES[kind](folder) for kind in kinds}
    for case in cases.values():
        case.warm()
    watch = Watch()
    limit_memory()
    found = {kind: look(case, kind, range(seed, seed + n_files), watch) for kind, case in cases.items()}
    print(json.dumps(found))


def look(case, kind, seeds, watch):
    """What comes of reading the files of a kind that some seeds make."""
    found = nothing_found()
    for seed in seeds:
        (case.folder / "seed").write_text(f"{kind} {seed}")
        case.put(case.mutated(seed))
        began = time.process_time()
        try:
            found["read" if watch.watched(case.is_read, seed) else "refused"] += 1
        except BaseException:
            found["findings"].append(f"{kind} {seed}: {traceback.format_exc()[-1500:]}")
        took = time.process_time() - began
        found["files"] += 1
        found["slowest"] = max(found["slowest"], took)
        if took > MOST_SECONDS:
            found["findings"].append(f"{kind} {seed}: took {took:.1f} seconds")
        stray = sorted({path.name for path in case.folder.iterdir()} - {"seed", *case.names})
        if stray:
            found["findings"].append(f"{kind} {seed}: left files {stray}")
    return found


def limit_memory():
    """No more address space than now and a little."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_BYTES, now + MOST_BYTES))


class Watch:
    """Notices code that is run and files that are opened for writing while a file is read."""

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self._hook)

    def _hook(self, event, arguments):
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {str(arguments)[:200]}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.seen.append(f"opened for writing: {str(arguments[0])[:200]}")

    def watched(self, read, seed):
        self.on, self.seen = True, []
        try:
            return read(seed)
        finally:
            self.on = False
            if self.seen:
                raise AssertionError("; ".join(self.seen))


class Case:
    """Sound files of a kind, how they are mutated, and what a reader does with them.

    A mutated file is the bytes of all that stands in the folder, by names; the first of ``names`` is the file itself.
    """

    names: tuple[str, ...]

    def __init__(self, folder):
        self.folder = Path(folder)
        self.path = self.folder / self.names[0]

    def warm(self):
        for files in self.sound:
            self.put(files)
            assert self.is_read()
        for seed in range(-50, 0):
            self.put(self.mutated(seed))
            self.is_read(seed)

    def put(self, files):
        forget()  # what a process has read of a file before is not the question here
        for path in self.folder.iterdir():
            if path.name != "seed":
                path.unlink()
        for name, content in files.items():
            (self.folder / name).write_bytes(content)

    def is_read(self, seed=0):
        try:
            self.use(seed)
        except DPForestError:
            return False
        return True


class ModelCase(Case):
    names = ("mutated.dpf",)

    def __init__(self, folder):
        super().__init__(folder)
        self.contents, self.rows = model_files(), rows()
        self.sound = [{self.path.name: content} for content in self.contents]

    def mutated(self, seed):
        return {self.path.name: mutated_model(self.contents, seed)}

    def use(self, seed):
        model = load_model(self.path, allow_changed=seed % 2 == 1)
        try:
            str(model.privacy_), repr(model), model.ledger_.spent, model.ledger_.entries(), model.feature_importances_
        except DPForestError as error:
            raise AssertionError("what a model says of itself is not refused") from error
        model.predict(self.rows)
        model.forest_.rules_text()
        model.to_json()
        model.to_sql("t")
        report_content(model)


class SchemaCase(Case):
    names = ("mutated.json", "mutated.toml")

    def __init__(self, folder):
        super().__init__(folder)
        self.files = schema_files()
        self.sound = [{f"mutated{Path(name).suffix}": content} for name, content in self.files.items()]

    def mutated(self, seed):
        content, ending = mutated_schema(self.files, seed)
        return {f"mutated.{ending}": content}

    def use(self, seed):
        schema = Schema.from_file(next(self.folder.glob("mutated.*")))
        repr(schema)
        Schema.from_dict(schema.to_dict())
        Domain.of(schema, Grid())


class BudgetCase(Case):
    # With journals that the store itself may leave beside it.
    names = ("mutated.db", "mutated.db-journal", "mutated.db-wal", "mutated.db-shm")

    def __init__(self, folder):
        super().__init__(folder)
        self.contents = budget_files()
        self.sound = [self.with_log(*content) for content in self.contents]

    def with_log(self, content, log):
        return {"mutated.db": content} | ({"mutated.db-wal": log} if log else {})

    def mutated(self, seed):
        return self.with_log(*mutated_budget(self.contents, seed, self.folder / "forged.db"))

    def use(self, seed):
        use_budget(self.path)


CASES = dict(zip(KINDS, (ModelCase, SchemaCase, BudgetCase), strict=True))


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
