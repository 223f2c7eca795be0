"""A PostgreSQL server of our own: Debian's binaries, a throw-away folder, loopback only, two accounts."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = "postgres"
DATABASE = "ward"
KEEPER = "keeper"  # may read the tables and make temporary ones
READER = "reader"  # may only read


@dataclass(frozen=True)
class Server:
    """Where a running server listens, and the password of its accounts."""

    port: int
    password: str

    def url(self, user: str, port: int | None = None) -> str:
        return f"postgresql://{user}:{self.password}@127.0.0.1:{port or self.port}/{DATABASE}"

    def connect(self, user: str, port: int | None = None):
        import ibis

        return ibis.postgres.connect(
            host="127.0.0.1", port=port or self.port, user=user, password=self.password, database=DATABASE
        )


@contextmanager
def running_server() -> Iterator[Server]:
    """A fresh server for as long as the block takes."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="dpforest-postgres-"))
    try:
        as_owner = _give_to_owner(folder)
        server = Server(_free_port(), secrets.token_hex(16))
        data, secret = folder / "data", folder / "password"
        secret.write_text(server.password)
        secret.chmod(0o644)
        _run([*as_owner, programs / "initdb", "-D", data, "-U", ROOT, "-A", "scram-sha-256", "--pwfile", secret, "-N"])
        options = f"-c listen_addresses=127.0.0.1 -c port={server.port} -c unix_socket_directories='' -c fsync=off"
        control = [*as_owner, programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
        _run([*control, "-o", options, "start"])
        try:
            _make_accounts(server)
            yield server
        finally:
            with suppress(subprocess.SubprocessError):
                _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def need_server() -> None:
    """Skip loudly where there is no server to start; on CI there must be one."""
    if _programs() is not None:
        return
    reason = "POSTGRESQL IS NOT TESTED: no server in /usr/lib/postgresql (Debian: apt-get install postgresql)."
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _give_to_owner(folder: Path) -> list[str]:
    """The server refuses to run as root: the folder gets another owner, and commands run as that one."""
    folder.chmod(0o755)
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, "nobody")
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run(command: list) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60, cwd="/")


def _make_accounts(server: Server) -> None:
    import psycopg
    from psycopg import sql

    where = {"host": "127.0.0.1", "port": server.port, "user": ROOT, "password": server.password, "autocommit": True}
    with psycopg.connect(dbname="postgres", **where) as root:
        root.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        for user in (KEEPER, READER):
            root.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), sql.Literal(server.password))
            )
        root.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE)))
        for right, user in (("CONNECT, TEMPORARY", KEEPER), ("CONNECT", READER)):
            root.execute(
                sql.SQL("GRANT {} ON DATABASE {} TO {}").format(
                    sql.SQL(right), sql.Identifier(DATABASE), sql.Identifier(user)
                )
            )
    with psycopg.connect(dbname=DATABASE, **where) as root:
        root.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO keeper, reader")
