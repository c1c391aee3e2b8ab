"""The production template, made and checked: layer, cdk synth with cdk-nag, cfn-lint."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.cdk import CDK, ROOT, cdk_environment
from infra.layer import PLATFORMS, LayerError, build_layer
from infra.progress import StepFailed, Steps, run

ASSEMBLY = ROOT / ".local" / "cdk.out"
LOGS = ROOT / ".local" / "log"

# A circular dependency, which CDK only warns about and CloudFormation refuses.
CIRCULAR = "F3004"


def synthesize(*, context: Sequence[str] = (), assembly: Path = ASSEMBLY) -> Path:
    """Make the production template and fail on any finding; return the template's path.

    Raises:
        StepFailed: the layer, the app, cdk-nag, CDK's own validation or cfn-lint.
    """
    environment = cdk_environment()
    with Steps() as steps:
        with steps.step("layer for arm64"):
            layer = _layer()
        with steps.step("cdk synth with cdk-nag"):
            _synth(assembly, [*context, f"layer={layer}"], environment)
        with steps.step("cfn-lint"):
            template = _lint(assembly, environment)
    print(
        f"template: {template.relative_to(ROOT)} ({template.stat().st_size // 1024} KiB)"
    )
    return template


def _layer() -> Path:
    try:
        return build_layer(PLATFORMS["arm64"])
    except LayerError as error:
        raise StepFailed(str(error)) from error


def _synth(assembly: Path, context: list[str], environment: Mapping[str, str]) -> None:
    log = LOGS / "synth.log"
    switches = [part for pair in context for part in ("-c", pair)]
    command = [*CDK, "synth", "--quiet", "--output", str(assembly), *switches]
    run(command, log=log, environment=environment, cwd=ROOT)
    if found := circular_dependencies(log.read_text()):
        raise StepFailed(f"circular dependency: {found[0]}", log=log)


def circular_dependencies(output: str) -> list[str]:
    """Return the lines in which CDK warns of one; it exits with success all the same."""
    return [line.strip() for line in output.splitlines() if CIRCULAR in line]


def _lint(assembly: Path, environment: Mapping[str, str]) -> Path:
    (template,) = assembly.glob("*.template.json")
    lint = str(Path(sys.executable).with_name("cfn-lint"))
    command = [
        lint,
        "--non-zero-exit-code",
        "error",
        "--ignore-checks",
        "W3005",
        "--",
        str(template),
    ]
    run(command, log=LOGS / "cfn-lint.log", environment=environment, cwd=ROOT)
    return template
