"""The layer: right for its platform, and enough for every handler."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cdk import ROOT
from infra.layer import HERE, PLATFORMS, build_layer

AARCH64 = 183  # e_machine of an ELF file
UNCHECKED_HASH = 0b01  # the flags word of a pyc: hash-based, and not checked at import
HANDLERS = sorted(path.parent.name for path in ROOT.glob("functions/*/handler.py"))


@pytest.fixture(scope="session")
def layer_here() -> Path:
    return build_layer(HERE) / "python"


@pytest.fixture(scope="session")
def layer_arm64() -> Path:
    return build_layer(PLATFORMS["arm64"]) / "python"


def test_every_function_of_the_stack_has_a_handler() -> None:
    assert {"submit", "dispatch", "reconcile", "migrate"} <= set(HANDLERS)


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_imports_with_nothing_but_the_layer(
    name: str, layer_here: Path
) -> None:
    script = (
        f"import sys; sys.path[:0] = {[str(layer_here), str(ROOT / 'functions' / name)]}"
    )
    found = _python(
        f"{script}; import handler, effect_broker; print(effect_broker.__file__)"
    )
    assert found.startswith(str(layer_here))


def test_the_layer_carries_migrations_as_package_data(layer_arm64: Path) -> None:
    migrations = layer_arm64 / "effect_broker" / "_migrations"
    assert (migrations / "env.py").is_file()
    assert list((migrations / "versions").glob("*.py"))


def test_every_compiled_module_is_for_the_functions_processor(layer_arm64: Path) -> None:
    compiled = [p for p in layer_arm64.rglob("*.so*") if p.is_file()]
    assert any("psycopg" in str(p) for p in compiled)
    for path in compiled:
        header = path.read_bytes()[:20]
        assert header[:4] == b"\x7fELF", path
        assert struct.unpack("<H", header[18:20]) == (AARCH64,), path


def test_bytecode_is_trusted_without_the_files_times(layer_here: Path) -> None:
    """A zip levels all times, and `/opt` is read-only: any other kind is never used."""
    shipped = list((layer_here / "psycopg").rglob("*.pyc"))
    assert shipped
    for path in shipped:
        (flags,) = struct.unpack("<I", path.read_bytes()[4:8])
        assert flags == UNCHECKED_HASH, path


def test_the_layer_leaves_out_what_the_runtime_brings(layer_arm64: Path) -> None:
    assert not (layer_arm64 / "boto3").exists()
    assert not (layer_arm64 / "bin").exists()


def test_an_unchanged_layer_is_not_built_again(layer_here: Path) -> None:
    before = layer_here.stat().st_mtime_ns
    assert build_layer(HERE) / "python" == layer_here
    assert layer_here.stat().st_mtime_ns == before


def _python(script: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
