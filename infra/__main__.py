"""`python -m infra synth | layer | keyring`."""

from __future__ import annotations

import argparse
import sys

from infra import synth
from infra.keyring import new_keyring
from infra.layer import HERE, PLATFORMS, LayerError, build_layer
from infra.progress import StepFailed, Steps


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    synth_verb = verbs.add_parser(
        "synth", help="make the production template and check it"
    )
    synth_verb.add_argument("-c", "--context", action="append", default=[], metavar="K=V")
    layer_verb = verbs.add_parser("layer", help="build the Lambda layer")
    layer_verb.add_argument(
        "--platform", choices=[*PLATFORMS, HERE.architecture], default="arm64"
    )
    verbs.add_parser("keyring", help="print a fresh keyring, for the keyring secret")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.verb == "synth":
            synth.synthesize(context=chosen.context)
        elif chosen.verb == "layer":
            _layer(chosen.platform)
        else:
            print(new_keyring())
    except (StepFailed, LayerError) as error:
        print(f"infra {chosen.verb}: {error}", file=sys.stderr)
        return 1
    return 0


def _layer(name: str) -> None:
    platforms = {**PLATFORMS, HERE.architecture: HERE}
    with Steps() as steps, steps.step("layer"):
        folder = build_layer(platforms[name])
    print(folder)


if __name__ == "__main__":
    sys.exit(main())
