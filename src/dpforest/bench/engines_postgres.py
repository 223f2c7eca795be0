"""A throw-away PostgreSQL server on this machine, from the programs of the operating system."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpforest.bench.speed_process import NotMeasured

PROGRAMS = Path("/usr/lib/postgresql")
# Set to the address of a server to use that one instead; a table ``bench_…`` is written to it and dropped.
VARIABLE = "DPFOREST_BENCH_POSTGRES"


@contextmanager
def server() -> Iterator[str]:
    """The address of a server, for as long as it is needed."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    found = shutil.which("pg_ctl") or next((str(path) for path in sorted(PROGRAMS.glob("*/bin/pg_ctl"))[::-1]), None)
    if found is None:
        raise NotMeasured(f"there is no PostgreSQL server here; install one, or set {VARIABLE} to the address of one")
    # The server refuses to run as root.
    owner: dict[str, Any] = {"user": "postgres", "group": "postgres"} if getpass.getuser() == "root" else {}
    quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory(prefix="dpforest-postgres-") as folder:
        if owner:
            shutil.chown(folder, **owner)
        data, port = Path(folder) / "data", _free_port()
        settings = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c shared_buffers=512MB -c fsync=off"
        )
        create = [str(Path(found).with_name("initdb")), "-D", str(data), "-U", "bench", "-A", "trust"]
        try:
            subprocess.run(create, cwd=folder, **quiet, **owner)
            control = [found, "-D", str(data), "-w"]
            subprocess.run(
                [*control, "-o", settings, "-l", str(Path(folder) / "log"), "start"], cwd=folder, **quiet, **owner
            )
        except (subprocess.CalledProcessError, OSError) as error:
            raise NotMeasured(f"the PostgreSQL server did not start: {type(error).__name__}") from None
        try:
            yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], cwd=folder, **quiet, **owner)


def _free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])
