"""Who an effect is: the caller's key, the payload's hash, the key the target sees."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from effect_broker.domain.canonical import canonical
from effect_broker.domain.errors import InvalidOperationKey

if TYPE_CHECKING:
    from effect_broker.domain.contract import EffectContract, KeyFormat

OPERATION_KEY_LENGTH_MAX: Final = 255

_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")
_UNFILLED: Final = re.compile(
    r"\{[^{}]*\}|<[A-Za-z_][\w .-]*>|%\([^()]*\)[sd]|\[object \w+\]"
)
_PLACEHOLDERS: Final = frozenset(
    {
        "null",
        "none",
        "nil",
        "undefined",
        "nan",
        "string",
        "operation_key",
        "operation-key",
        "idempotency_key",
        "idempotency-key",
        "changeme",
        "placeholder",
        "todo",
        "tbd",
        "n/a",
    }
)
"""What forms, generated clients and schema examples send when nobody gave a key."""

_MISSING_PARTS: Final = frozenset({"null", "None", "nil", "undefined", "NaN", "nan"})
"""What a formatted key holds where a variable was empty: `order:None:charge:v1`."""

_SUB_STEP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class Mac(Protocol):
    """The part of a key deriver that identity needs."""

    def mac(self, hmac_key_id: str, message: bytes) -> bytes:
        """Return HMAC-SHA-256 under the named key."""


def check_operation_key(key: object) -> str:
    """Accept a caller's key as it is: never trimmed, folded, generated or derived.

    Refuses anything but 1 to 255 printable ASCII characters without a space at either
    end, and what names no business intent: a placeholder, an unfilled template, a part
    that is `None` or `undefined`. The message does not repeat the key.

    Raises:
        InvalidOperationKey: saying which rule it breaks.
    """
    if not isinstance(key, str):
        raise InvalidOperationKey("operation_key must be a text.")
    if not 1 <= len(key) <= OPERATION_KEY_LENGTH_MAX:
        raise InvalidOperationKey(
            f"operation_key must have 1 to {OPERATION_KEY_LENGTH_MAX} characters."
        )
    if not _PRINTABLE.fullmatch(key):
        raise InvalidOperationKey("operation_key must be printable ASCII.")
    if key != key.strip(" "):
        raise InvalidOperationKey("operation_key must not begin or end with a space.")
    if key.lower() in _PLACEHOLDERS or not any(map(str.isalnum, key)):
        raise InvalidOperationKey(
            "operation_key is a placeholder; name the business intent, for example"
            " order:ord_123:charge:v1."
        )
    if _UNFILLED.search(key) or not _MISSING_PARTS.isdisjoint(re.split(r"[:/|]", key)):
        raise InvalidOperationKey(
            "operation_key has a part that nothing has filled; it must name one intent."
        )
    return key


def request_hash(
    tool: str,
    arguments: Mapping[str, Any],
    contract_name: str,
    contract_version: str,
    non_intent_fields: Collection[str] = (),
) -> bytes:
    """Bind the payload: SHA-256 over the canonical form of what the caller means.

    `contract_name` and `contract_version` are those pinned in the stored row where the
    key exists, so that a deploy is no drift. Fields outside the intent are left out.

    Raises:
        InvalidJson: the arguments are not strict JSON values.
    """
    if non_intent_fields:
        arguments = {
            name: value
            for name, value in arguments.items()
            if name not in non_intent_fields
        }
    bound = {
        "tool": tool,
        "arguments": arguments,
        "contract_name": contract_name,
        "contract_version": contract_version,
    }
    return hashlib.sha256(canonical(bound)).digest()


def downstream_key(
    deriver: Mac,
    hmac_key_id: str,
    tenant_id: UUID,
    operation_key: str,
    contract: EffectContract,
    generation: int = 1,
) -> str:
    """Derive the key that the target sees, in the contract's format, never cut.

    Called once at reservation, and once for each later generation; everybody else reads
    what is stored, so that rotating the tenant's key changes no key in flight.

    Raises:
        CipherError: the tenant's key is not in the keyring.
    """
    message = f"{tenant_id}\0{operation_key}"
    if generation > 1:
        message += f"\0{generation}"
    return render_key(deriver.mac(hmac_key_id, message.encode()), contract.key_format)


def sub_key(downstream_key: str, step: str, contract: EffectContract) -> str:
    """Derive the key of a named sub-step of one dispatch, stable over retries.

    For an adapter whose effect needs several requests, at a target that ties each key to
    one of them. It follows from the stored key alone.

    Raises:
        ValueError: the step is no short name.
    """
    if not _SUB_STEP.fullmatch(step):
        raise ValueError("a sub-step is a short name, for example 'capture'")
    digest = hmac.digest(downstream_key.encode(), f"sub-step\0{step}".encode(), "sha256")
    return render_key(digest, contract.key_format)


def render_key(digest: bytes, key_format: KeyFormat) -> str:
    """Write 32 bytes as base64url without padding, as hex, or as a UUID.

    The UUID carries the first 128 bits with the version bits of a random UUID (4) and the
    RFC variant: 122 bits of the MAC, in the one shape that every validator accepts.
    """
    match key_format.value:
        case "hex":
            return digest.hex()
        case "uuid":
            return str(UUID(bytes=digest[:16], version=4))
        case _:
            return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def differing_fields(stored: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Name what differs between two `{"tool": …, "arguments": {…}}`, never the values.

    Returns `tool` and the top-level argument names, sorted. Values are compared in their
    canonical form: `1` and `1.0` do not differ.
    """
    names = ["tool"] if stored.get("tool") != new.get("tool") else []
    before, after = stored.get("arguments") or {}, new.get("arguments") or {}
    return names + sorted(
        name
        for name in before.keys() | after.keys()
        if (name in before) != (name in after)
        or canonical(before[name]) != canonical(after[name])
    )
