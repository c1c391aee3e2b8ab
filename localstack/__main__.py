"""`python -m localstack up | down | status | logs [NAME]`."""

from __future__ import annotations

import argparse
import sys

from infra.progress import StepFailed
from localstack.lock import exclusive
from localstack.logs import logs
from localstack.start import up
from localstack.status import status
from localstack.stop import down
from localstack.workspace import Workspace, WorkspaceError


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code; a failure is one line on stderr."""
    chosen = _parser().parse_args(arguments)
    try:
        return _run(chosen, Workspace.from_environment())
    except (StepFailed, WorkspaceError) as error:
        print(f"{chosen.verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{chosen.verb}: interrupted; `make down` stops what runs", file=sys.stderr)
        return 130


def _run(chosen: argparse.Namespace, workspace: Workspace) -> int:
    lock = workspace.state / "lock"
    if chosen.verb == "up":
        with exclusive(lock):
            up(workspace)
    elif chosen.verb == "down":
        with exclusive(lock):
            down(workspace)
    elif chosen.verb == "status":
        return 0 if status(workspace) else 1
    else:
        logs(workspace, chosen.name, follow=chosen.follow)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localstack", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="start, deploy and seed what is missing or has changed")
    verbs.add_parser("down", help="stop everything that `up` started")
    verbs.add_parser("status", help="each part with its health")
    logs_verb = verbs.add_parser("logs", help="the end of the logs, or of one")
    logs_verb.add_argument("name", nargs="?", help="a part, a step or a function")
    logs_verb.add_argument("-f", "--follow", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
