"""Start the target: `python -m examples.crash_matrix.target --port 0 --database FILE`.

Once it listens it prints one line, `{"url": "http://127.0.0.1:PORT"}`, on stdout.
"""

import argparse
import json
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from typing import NoReturn

from .server import Server


def main() -> int:
    """Serve until stopped; 1 when the port or the database cannot be had."""
    arguments = _arguments()
    try:
        server = Server(arguments.host, arguments.port, arguments.database)
    except (OSError, sqlite3.Error) as error:
        print(f"demo target: cannot start: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    if arguments.stop_at_eof:
        threading.Thread(target=_leave_at_eof, daemon=True).start()
    print(json.dumps({"url": server.url}), flush=True)
    server.serve_forever()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="target", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one")
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="stop when stdin ends, so that it does not outlive whoever started it",
    )
    return parser.parse_args()


def _leave(*_: object) -> NoReturn:
    # What is committed is durable and nothing else has to survive: held requests die here
    # as they would in a crash, without a chance to act on the way out.
    os._exit(0)


def _leave_at_eof() -> None:
    sys.stdin.buffer.read()
    _leave()


if __name__ == "__main__":
    sys.exit(main())
