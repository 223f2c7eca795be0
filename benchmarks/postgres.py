"""A throw-away PostgreSQL server on this machine, from the programs of the operating system; tests start theirs here too."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.core.results import NotMeasured

PROGRAMS = Path("/usr/lib/postgresql")
OWNER = "postgres"  # the user that Debian's packages make, and the first account of the server
# Set to the address of a server to use that one instead; tables ``bench_…`` are written to it.
VARIABLE = "DPFOREST_BENCH_POSTGRES"


@dataclass(frozen=True)
class Server:
    """Where a running server listens, and the password of its accounts."""

    port: int
    password: str = field(repr=False)

    def url(self, user: str, database: str) -> str:
        """The address of a database for one of the accounts."""
        return f"postgresql://{user}:{self.password}@127.0.0.1:{self.port}/{database}"


@contextmanager
def server() -> Iterator[str]:
    """The address of a server, for as long as it is needed."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    with started("512MB") as own:
        yield own.url(OWNER, "postgres")


def programs() -> Path | None:
    """The folder of the newest server programs; None if there are none."""
    control = shutil.which("pg_ctl")
    if control is not None:
        return Path(control).parent
    found = PROGRAMS.glob("*/bin/pg_ctl")
    return max((path.parent for path in found), key=lambda folder: int(folder.parts[-2]), default=None)


@contextmanager
def started(shared_buffers: str = "128MB") -> Iterator[Server]:
    """A fresh server on loopback with a folder of its own; both are gone afterwards."""
    found = programs()
    if found is None:
        raise NotMeasured(f"there is no PostgreSQL server here; install one, or set {VARIABLE} to the address of one")
    own = Server(_free_port(), secrets.token_hex(16))
    settings = {
        "port": own.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "''",
        "shared_buffers": shared_buffers, "fsync": "off",
    }  # fmt: skip
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    with tempfile.TemporaryDirectory(prefix="dpforest-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        control = [found / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log"]
        try:
            _fill(folder, own, found)
            _run([*control, "-o", options, "start"], folder)
        except (subprocess.SubprocessError, OSError, LookupError) as error:
            raise NotMeasured(f"the PostgreSQL server did not start: {type(error).__name__}") from None
        try:
            yield own
        finally:
            with suppress(subprocess.SubprocessError):
                _run([*control, "-m", "immediate", "stop"], folder)


def _fill(folder: Path, own: Server, found: Path) -> None:
    """Files of an empty server. The password is handed over in a file: other users can list the words of a command."""
    secret = folder / "password"
    secret.write_text(own.password)
    for path in (folder, secret) if os.geteuid() == 0 else ():
        shutil.chown(path, OWNER, OWNER)
    _run([found / "initdb", "-D", folder / "data", "-U", OWNER, "-A", "scram-sha-256", "--pwfile", secret, "-N"], folder)


def _run(command: list[Any], folder: Path) -> None:
    # The server refuses to run as root.
    user: dict[str, Any] = {"user": OWNER, "group": OWNER, "extra_groups": []} if os.geteuid() == 0 else {}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([str(word) for word in command], check=True, timeout=60, cwd=folder, **quiet, **user)


def _free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])
