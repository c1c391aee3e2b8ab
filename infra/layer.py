"""The layer: effect_broker and what it imports, built for the functions' own platform."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ROOT / ".local" / "layer"
REQUIREMENTS = ROOT / "requirements" / "layer.txt"

_SOURCES = (
    "layer",
    "migrations",
    "pyproject.toml",
    "requirements/layer.txt",
    "infra/layer.py",
)


class LayerError(RuntimeError):
    """The layer cannot be built; the message is one line that says why."""


@dataclass(frozen=True)
class Platform:
    """What the layer's compiled wheels are for."""

    architecture: str
    python: str
    wheels: str | None = None  # uv's name for it; none means the machine that builds

    @property
    def folder(self) -> Path:
        """Where this platform's layer is built; the folder is the asset."""
        return LAYERS / f"{self.architecture}-{self.python}"


# manylinux2014 would do on Lambda too, but there psycopg has only an old release.
PLATFORMS = {
    "arm64": Platform("arm64", "3.13", "aarch64-manylinux_2_28"),
    "x86_64": Platform("x86_64", "3.13", "x86_64-manylinux_2_28"),
}
HERE = Platform("here", f"{sys.version_info.major}.{sys.version_info.minor}")


def built_layer(architecture: str) -> Path | None:
    """Return the layer folder if one was built, current or not."""
    folder = PLATFORMS[architecture].folder
    return folder if (folder / "python").is_dir() else None


def build_layer(platform: Platform) -> Path:
    """Build the layer unless it is current, and return its folder.

    Wheels only, with hashes, for the target platform: nothing is compiled, and nothing
    of this machine's own gets in. Bytecode is shipped as unchecked-hash: a zip levels
    all times and `/opt` is read-only, so that any other kind is compiled at every cold
    start.

    Raises:
        LayerError: a wheel is missing for the platform, or a hash does not match.
    """
    LAYERS.mkdir(parents=True, exist_ok=True)
    with (LAYERS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build_unless_current(platform)
    return platform.folder


def _build_unless_current(platform: Platform) -> None:
    folder, stamp = platform.folder, platform.folder.with_suffix(".json")
    wanted = {"sources": _fingerprint(), "bytecode": _interpreter(platform) is not None}
    if folder.is_dir() and stamp.is_file() and json.loads(stamp.read_text()) == wanted:
        return
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "python"
    python.mkdir(parents=True)
    _install(python, platform)
    _add_own_package(python)
    _trim(python)
    _compile(python, platform)
    stamp.write_text(json.dumps(wanted))


def _install(python: Path, platform: Platform) -> None:
    target = ["--python-version", platform.python]
    if platform.wheels:
        target += ["--python-platform", platform.wheels]
    _run(
        [
            *(_uv(), "pip", "install", "--quiet", "--target", str(python), *target),
            *("--only-binary", ":all:", "--require-hashes", "--link-mode", "copy"),
            *("--requirement", str(REQUIREMENTS)),
        ]
    )


def _add_own_package(python: Path) -> None:
    """Add effect_broker as its wheel has it, with the migrations."""
    wheels = LAYERS / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    _run(
        [
            *(_uv(), "build", "--quiet", "--wheel", "--no-build-isolation"),
            *("--python", sys.executable, "--out-dir", str(wheels), str(ROOT)),
        ]
    )
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(python)
    shutil.rmtree(wheels)


def _trim(python: Path) -> None:
    """Drop what no import reads: scripts, caches, and the installer's lock."""
    for name in ("bin", ".lock"):
        path = python / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for cache in list(python.rglob("__pycache__")):
        shutil.rmtree(cache)


def _compile(python: Path, platform: Platform) -> None:
    interpreter = _interpreter(platform)
    if interpreter is None:
        print(
            f"layer: no python{platform.python} here, so no bytecode is shipped and"
            " imports at a cold start take three to five times as long",
            file=sys.stderr,
        )
        return
    _run(
        [
            *(interpreter, "-m", "compileall", "-q", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash"),
            *("-s", str(python), "-p", "/opt/python", str(python)),
        ],
        failure_is_fatal=False,  # some packages carry files that are no valid Python
    )


def _interpreter(platform: Platform) -> str | None:
    """Bytecode belongs to one minor version, on whatever processor it was made."""
    if platform.python == HERE.python:
        return sys.executable
    return shutil.which(f"python{platform.python}")


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise LayerError("uv is missing: run `make setup`")
    return found


def _run(command: list[str], *, failure_is_fatal: bool = True) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 and failure_is_fatal:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
        why = " ".join(line for line in lines if line)[-400:]
        raise LayerError(f"`{Path(command[0]).name} {command[1]}` failed: {why}")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _source_files() -> Iterator[Path]:
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            files = (p for p in source.rglob("*") if p.is_file() and p.suffix != ".pyc")
            yield from sorted(files)
        elif source.exists():
            yield source
