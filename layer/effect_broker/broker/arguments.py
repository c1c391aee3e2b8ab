"""Arguments against the contract's schema; the answer names places, never values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from effect_broker.domain.contract import EffectContract
from effect_broker.domain.errors import InvalidArguments

POINTERS_MAX: Final = 8
"""More places than this help nobody to mend a request."""


def check_arguments(contract: EffectContract, arguments: Mapping[str, Any]) -> None:
    """Accept arguments that the contract's JSON Schema accepts.

    Raises:
        InvalidArguments: `pointers` name the places and the schema keyword that refused.
    """
    errors = _validator(contract).iter_errors(dict(arguments))
    places = [
        f"{_pointer(error.absolute_path)}: {error.validator}"
        for error, _ in zip(errors, range(POINTERS_MAX), strict=False)
    ]
    if places:
        raise InvalidArguments(
            f"The arguments do not fit the schema of {contract.tool}.", pointers=places
        )


def _pointer(path: Any) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{part}" for part in parts) or "/"


_validators: dict[bytes, Validator] = {}


def _validator(contract: EffectContract) -> Validator:
    """Return the compiled schema; one is kept for each document that this process has
    seen.
    """
    digest = contract.digest()
    validator = _validators.get(digest)
    if validator is None:
        validator = Draft202012Validator(dict(contract.arguments))
        _validators[digest] = validator
    return validator
