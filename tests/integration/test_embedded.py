from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from effect_broker.embedded import EmbeddedPostgres, EmbeddedPostgresError


@pytest.fixture
def server(server_folder: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres.start(server_folder) as server:
        yield server


def count_rows(server: EmbeddedPostgres) -> int:
    with psycopg.connect(server.url()) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row is not None
    return int(row[0])


def keep_a_row(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")


def test_second_start_finds_the_server_that_runs(server: EmbeddedPostgres) -> None:
    again = EmbeddedPostgres.start(server.data_dir)
    assert again.url() == server.url()


def test_stopped_server_keeps_its_data_and_its_url(server: EmbeddedPostgres) -> None:
    keep_a_row(server)
    url = server.url()
    server.stop()
    assert not server.is_running()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    assert EmbeddedPostgres.start(server.data_dir).url() == url
    assert count_rows(server) == 1


def test_killed_server_ends_every_session_and_recovers_what_was_committed(
    server: EmbeddedPostgres,
) -> None:
    keep_a_row(server)
    with psycopg.connect(server.url()) as connection:
        backend = connection.info.backend_pid
        server.kill()
        assert not psutil.pid_exists(backend) or (
            psutil.Process(backend).status() == psutil.STATUS_ZOMBIE
        )
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
    server.restart()
    assert count_rows(server) == 1


def test_wrong_password_is_refused(server: EmbeddedPostgres) -> None:
    password = (server.data_dir / "password").read_text()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url().replace(password, "wrong"))


def test_server_listens_on_the_loopback_only(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.url()) as connection:
        row = connection.execute("SHOW listen_addresses").fetchone()
    assert row == ("127.0.0.1",)


def test_taken_port_is_named(server_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedPostgresError, match=f"port {port} .* is taken"):
            EmbeddedPostgres.start(server_folder, port=port)


def test_last_port_that_is_taken_is_replaced(server_folder: Path) -> None:
    with EmbeddedPostgres.start(server_folder) as server:
        port = server.port
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with EmbeddedPostgres.start(server_folder) as server:
            assert server.port != port
            psycopg.connect(server.url()).close()


def test_cluster_of_another_major_version_is_refused(server: EmbeddedPostgres) -> None:
    server.stop()
    (server.data_dir / "cluster" / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedPostgresError, match="holds a PostgreSQL 15 cluster"):
        EmbeddedPostgres.start(server.data_dir)


def test_unknown_version_is_refused(server_folder: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="no embedded PostgreSQL 9"):
        EmbeddedPostgres.start(server_folder, version="9")


def test_impossible_setting_is_told_in_one_line(server_folder: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="shared_buffers") as refused:
        EmbeddedPostgres.start(server_folder, settings={"shared_buffers": "1MB per core"})
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder_is_told_in_one_line(server_folder: Path) -> None:
    server_folder.chmod(0o500)
    with pytest.raises(EmbeddedPostgresError, match="Permission denied"):
        EmbeddedPostgres.start(server_folder / "postgres")
    server_folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the server himself")
def test_server_of_root_opens_no_folder_for_reading(server_folder: Path) -> None:
    server_folder.chmod(0o700)
    with EmbeddedPostgres.start(server_folder / "postgres"):
        assert oct(server_folder.stat().st_mode)[-3:] == "701"
