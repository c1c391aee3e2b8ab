"""`python -m examples.crash_matrix demo | matrix | deployed`."""

from __future__ import annotations

import argparse
import sys

from examples.crash_matrix.matrix.running import add_arguments, add_choice


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.crash_matrix")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("demo", help="kill a worker after the commit, and count the charges")
    add_arguments(
        verbs.add_parser("matrix", help="kill at every point, and count the charges")
    )
    add_choice(
        verbs.add_parser("deployed", help="the core of the matrix on the local AWS")
    )
    given = parser.parse_args(arguments)
    if given.verb == "demo":
        from examples.crash_matrix.demo import demo

        return demo()
    if given.verb == "deployed":
        from examples.crash_matrix.deployed.running import deployed

        return deployed(given)
    from examples.crash_matrix.matrix.running import matrix

    return matrix(given)


if __name__ == "__main__":
    sys.exit(main())
