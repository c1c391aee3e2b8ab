from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer
from typer.core import TyperGroup

from docs import generate
from effect_broker.domain.contract import EffectContract, SafetyClass
from effect_broker.domain.status import EffectStatus
from effect_broker.surfaces.cli.app import app
from effect_broker.surfaces.requests import finding, submission
from effect_broker.telemetry import NAMES, PREFIX

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = generate.documents()
README = (ROOT / "README.md").read_text()

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|tmp|root|home|Users|var/folders)/")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
MODULE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|sql|toml|yaml|md|svg|json))`")
METRIC = re.compile(r"`(effect_broker_\w+_(?:total|seconds|effects))`")
MADE_BY_RUNS = ".local/"
MODULE_ROOTS = (ROOT, ROOT / "layer" / "effect_broker", ROOT / "tests")

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


def test_generated_parts_are_current() -> None:
    stale = [
        generate.hint(path.relative_to(ROOT), path.read_text(), wanted)
        for path, wanted in generate.rendered()
        if path.read_text() != wanted
    ]
    assert stale == []


def test_hint_names_the_first_line_that_differs() -> None:
    hint = generate.hint(Path("a.md"), "one\ntwo\nthree\n", "one\n2\nthree\n")
    assert hint == "a.md:2: is 'two', should be '2'"


def test_part_that_nothing_renders_is_refused(tmp_path: Path) -> None:
    asked = "<!-- generated: colours -->\n<!-- end generated -->\n"
    (tmp_path / "a.md").write_text(asked)
    with pytest.raises(generate.BrokenDocument, match="colours"):
        list(generate.rendered(tmp_path))


def test_part_that_no_document_shows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("nothing generated\n")
    with pytest.raises(generate.BrokenDocument, match="states-arrows"):
        list(generate.rendered(tmp_path))


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    dead = [
        link
        for link in LINK.findall(without_code(document.read_text()))
        if not urlsplit(link).scheme and not leads_somewhere(document, link)
    ]
    assert dead == []


@each_document
def test_document_names_no_path_of_a_machine(document: Path) -> None:
    assert MACHINE_PATH.findall(document.read_text()) == []


@each_document
def test_files_that_are_named_exist(document: Path) -> None:
    missing = [
        name
        for name in MODULE.findall(document.read_text())
        if not name.startswith(MADE_BY_RUNS)
        and not any((root / name).exists() for root in (*MODULE_ROOTS, document.parent))
    ]
    assert missing == []


@each_document
def test_commands_exist(document: Path) -> None:
    for command in commands(document.read_text()):
        check_command(command)


@each_document
def test_metrics_that_are_named_exist(document: Path) -> None:
    named = set(METRIC.findall(document.read_text()))
    assert named <= {PREFIX + name for name in NAMES}


def test_readme_fits_a_short_read() -> None:
    assert len(README.splitlines()) <= 200


def test_readme_submits_what_the_demo_contract_accepts() -> None:
    (submitted,) = (
        json.loads(words[words.index("-d") + 1])
        for words in commands(README)
        if words[0] == "curl" and "-d" in words
    )
    request = submission(submitted)
    example_contract(request.tool).check_arguments(request.arguments)


def test_documented_bodies_are_accepted() -> None:
    api = (ROOT / "docs" / "http-api.md").read_text()
    bodies = [block for language, block in FENCE.findall(api) if language == "json"]
    submitted, found, invoked = map(json.loads, bodies)
    assert invoked.pop("operation") == "submit"
    for body in (submitted, invoked):
        request = submission(body)
        example_contract(request.tool).check_arguments(request.arguments)
    assert finding(found, actor="key:1").observed_at is not None


def test_readme_shows_every_class_the_unsafe_one_too() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| ")]
    for safety in SafetyClass:
        assert any(row.strip("|* ").startswith(safety) for row in rows), safety


def test_every_status_has_its_paragraph() -> None:
    headings = HEADING.findall((ROOT / "docs" / "state-machine.md").read_text())
    assert {f"`{status}`" for status in EffectStatus} <= set(headings)


def check_command(words: list[str]) -> None:
    """Fail unless the command could run in this checkout."""
    match words:
        case ["make", *arguments]:
            dry = ["make", "--dry-run", *arguments]
            subprocess.run(dry, cwd=ROOT, check=True, capture_output=True)
        case ["curl", *arguments]:
            check_curl(arguments)
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case ["effect-broker", *words]:
            check_cli(words)
        case [".", ".local/env"]:
            pass
        case _:
            pytest.fail(f"nothing checks the command {shlex.join(words)}")


def check_cli(words: list[str]) -> None:
    """Fail unless the command line has the command and takes its arguments."""
    name, command = "effect-broker", typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def check_curl(arguments: list[str]) -> None:
    """Fail unless the API serves the method and the path."""
    (url,) = (word for word in arguments if word.startswith("$EFFECT_BROKER_URL/"))
    path = re.sub(r"\$\w+", "{effect_id}", url.removeprefix("$EFFECT_BROKER_URL"))
    method = "post" if "-d" in arguments else "get"
    served = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    assert method in served[path.partition("?")[0]], path


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in the shell blocks of a document."""
    for language, block in FENCE.findall(text):
        if language != "sh":
            continue
        pending = ""
        for line in block.replace("\\\n", " ").splitlines():
            pending += line + "\n"
            try:
                words = shlex.split(pending, comments=True)
            except ValueError:  # a quote is still open
                continue
            if words:
                yield words
            pending = ""


def example_contract(tool: str) -> EffectContract:
    for path in (ROOT / "examples" / "contracts").glob("*.toml"):
        for found in tomllib.loads(path.read_text())["contracts"]:
            if found["tool"] == tool:
                return EffectContract.model_validate(found)
    pytest.fail(f"no example contract names {tool}")


def leads_somewhere(document: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives to a document's headings."""
    headings = HEADING.findall(without_code(document.read_text()))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def without_code(text: str) -> str:
    return FENCE.sub("", text)
