"""What goes into a function's zip, and the layer beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = ROOT / "functions"
STAGING = ROOT / ".local" / "functions"
HANDLER = "handler.handler"

_EXCLUDED = ["__pycache__", "*.pyc", "__init__.py"]


def function_code(folder: Path) -> lambda_.Code:
    """The zip of one function: its own folder, in which `handler.handler` is found."""
    return lambda_.Code.from_asset(str(folder), exclude=_EXCLUDED)


def staged_function_code(folder: Path, beside: dict[str, Path]) -> lambda_.Code:
    """The same with folders laid beside the handler, found as `/var/task/<key>`."""
    staged = STAGING / folder.name
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(folder, staged, ignore=shutil.ignore_patterns(*_EXCLUDED))
    for key, source in beside.items():
        shutil.copytree(source, staged / key)
    return lambda_.Code.from_asset(str(staged))
