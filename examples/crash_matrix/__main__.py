"""`python -m examples.crash_matrix demo`."""

from __future__ import annotations

import argparse
import sys

from examples.crash_matrix.demo import demo


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.crash_matrix")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("demo", help="kill a worker after the commit, and count the charges")
    parser.parse_args(arguments)
    return demo()


if __name__ == "__main__":
    sys.exit(main())
