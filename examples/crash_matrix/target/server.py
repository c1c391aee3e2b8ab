"""The service: a thread for each connection, and one line for each request on stderr."""

import socket
import sys
import threading
from pathlib import Path

from .control import Control
from .faults import WORLDS, FaultQueue
from .holding import Holding
from .instants import now, rendered
from .keys import Keys
from .store import Store
from .visits import Visits
from .wire import BadRequest, Connection, Request, error_answer
from .worlds import Worlds

BACKLOG = 1024


class Server:
    """One listening socket and all that stands behind it."""

    def __init__(self, host: str, port: int, database: Path) -> None:
        """Listen, then open the database; port 0 takes a free one.

        Raises:
            OSError: the port is taken.
            sqlite3.Error: the database cannot be used.
        """
        self._socket = socket.create_server((host, port), backlog=BACKLOG)
        self._store = Store(database)
        holding, faults, keys = Holding(), FaultQueue(), Keys(self._store)
        worlds = Worlds(self._store, holding, keys)
        self._visits = Visits(self._store, faults, holding, worlds)
        self._control = Control(self._store, faults, holding, keys)

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}"

    def serve_forever(self) -> None:
        # With the time in it, a connection of a later process never shares a name.
        start, number = f"{now():.3f}", 0
        while True:
            sock, peer = self._socket.accept()
            number += 1
            # The port tells which process on this machine is at the other end.
            connection = Connection(sock, f"{start}-{number}:{peer[1]}")
            threading.Thread(
                target=self._converse, args=(connection,), daemon=True
            ).start()

    def _converse(self, connection: Connection) -> None:
        try:
            while not connection.closed:
                request = connection.read_request()
                if request is None:
                    break
                _log(connection, self._serve(connection, request))
                if not request.keep_alive:
                    break
        except BadRequest as bad:
            _log(connection, f"unreadable -> {bad.status} {bad.code}")
            _send_last(connection, bad)
        except OSError as error:
            _log(connection, f"the peer left: {error}")
        finally:
            connection.close()

    def _serve(self, connection: Connection, request: Request) -> str:
        world = request.path.lstrip("/").partition("/")[0]
        if world in WORLDS:
            return self._visits.serve(connection, request, world)
        answer = self._control.answer(request)
        connection.send(answer, keep_alive=request.keep_alive)
        return f"{request.method} {request.target} -> {answer.status}"


def _send_last(connection: Connection, bad: BadRequest) -> None:
    answer = error_answer(bad.status, bad.code, str(bad))
    try:
        connection.send(answer, keep_alive=False)
    except OSError as error:
        _log(connection, f"the peer left: {error}")


def _log(connection: Connection, text: str) -> None:
    sys.stderr.write(f"{rendered(now())} {connection.name} {text}\n")
    sys.stderr.flush()
