"""Everything the broker refuses, as one tree; a lost answer is a value (`Ambiguous`),
never one of these.

EffectBrokerError
├── InvalidRequest              the caller's words are off; nothing was stored or sent
│   ├── InvalidJson             not one strict JSON value
│   ├── InvalidOperationKey     outside the documented key alphabet or a placeholder
│   ├── InvalidArguments        the contract's schema refuses the arguments
│   └── RequestTooLarge         over the limit on decoded bytes
├── Unauthenticated             no credential, or one that proves nothing
├── Forbidden                   the credential lacks the scope
├── RateLimited                 the key asks faster than it may; nothing was stored
├── NotFound                    no such thing for this tenant
│   ├── UnknownTool             no contract names the tool
│   ├── EffectNotFound          no effect with this id for this tenant
│   └── ReceiptNotFound         the effect has no receipt yet
├── Conflict
│   ├── PayloadDrift            the operation key is bound to another payload
│   ├── VersionConflict         the effect moved on since it was read
│   │   └── PreconditionFailed  … and the request named the version it was meant for
│   ├── DecisionRefused         an operator's decision that the rules do not allow (yet)
│   └── ContractConflict        the same contract version with another document
├── ContractInvalid             a contract file that cannot be loaded
├── LedgerUnavailable           no ledger, no dispatch; safe to repeat with the same key
│   └── SchemaMismatch          the schema is older or newer than this code
├── DispatchHeld                dispatch is stopped until an operator releases it
├── Fenced                      the claim is lost; stop
├── IllegalTransition           an arrow outside the table; a defect
├── TargetUnreadable            a target's own list could not be read to its end
├── SecretNotFound              a secret reference that resolves to nothing
└── CipherError                 a key is missing or a ciphertext does not belong here
    └── KeysMissing             the keyring has lost keys that the ledger relies on
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID


class EffectBrokerError(Exception):
    """The root: `code` is stable and machine-readable, the message is one sentence."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(EffectBrokerError):
    """The request cannot be understood; nothing was stored and nothing was sent."""

    code = "invalid_request"


class InvalidJson(InvalidRequest):
    """The bytes are not one strict JSON value; the message never echoes them."""

    code = "invalid_json"


class InvalidOperationKey(InvalidRequest):
    """The operation key is outside the documented alphabet, or a placeholder."""

    code = "invalid_operation_key"


class InvalidArguments(InvalidRequest):
    """The pinned contract's schema refuses the arguments; `pointers` say where."""

    code = "invalid_arguments"

    def __init__(self, message: str, *, pointers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pointers = tuple(pointers)


class RequestTooLarge(InvalidRequest):
    """The decoded body exceeds the limit."""

    code = "request_too_large"


class Unauthenticated(EffectBrokerError):
    """The credential is missing, wrong, revoked or expired; which one is not said."""

    code = "unauthenticated"


class Forbidden(EffectBrokerError):
    """The credential is good but lacks the scope."""

    code = "forbidden"

    def __init__(self, message: str, *, scope: str) -> None:
        super().__init__(message)
        self.scope = scope


class RateLimited(EffectBrokerError):
    """The key asks faster than it may; a repeat after `retry_after_seconds` is safe."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotFound(EffectBrokerError):
    """Nothing by that name for this tenant; another tenant's things are not found."""

    code = "not_found"


class UnknownTool(NotFound):
    """No published contract names the tool."""

    code = "unknown_tool"


class EffectNotFound(NotFound):
    """No effect with this id for this tenant."""

    code = "effect_not_found"


class ReceiptNotFound(NotFound):
    """The effect has no receipt (yet); `status` says where it stands."""

    code = "receipt_not_found"

    def __init__(self, message: str, *, effect_id: UUID, status: str) -> None:
        super().__init__(message)
        self.effect_id = effect_id
        self.status = status


class Conflict(EffectBrokerError):
    """The request contradicts what is recorded."""

    code = "conflict"


class PayloadDrift(Conflict):
    """The operation key is bound to another payload; read the effect, do not re-key."""

    code = "payload_drift"

    def __init__(self, *, effect_id: UUID, status: str, fields: Sequence[str]) -> None:
        names = ", ".join(fields) or "the payload"
        super().__init__(
            f"This operation_key already stands for effect {effect_id} ({status}),"
            f" recorded with other values for: {names}. Read that effect; a new key would"
            " be a second effect."
        )
        self.effect_id = effect_id
        self.status = status
        self.fields = tuple(fields)


class VersionConflict(Conflict):
    """The effect moved on since it was read; read it again and decide anew."""

    code = "version_conflict"

    def __init__(self, message: str, *, version: int | None = None) -> None:
        super().__init__(message)
        self.version = version


class PreconditionFailed(VersionConflict):
    """The request was meant for another version (`If-Match`); nothing was changed."""

    code = "precondition_failed"


class DecisionRefused(Conflict):
    """An operator's decision that the rules do not allow, or not yet (`not_before`)."""

    code = "decision_refused"

    def __init__(self, message: str, *, not_before: datetime | None = None) -> None:
        super().__init__(message)
        self.not_before = not_before


class ContractConflict(Conflict):
    """The same contract name and version with another document is refused."""

    code = "contract_conflict"


class ContractInvalid(EffectBrokerError):
    """A contract cannot be loaded; the message names file, contract, field and reason."""

    code = "contract_invalid"


class LedgerUnavailable(EffectBrokerError):
    """The ledger cannot be reached; nothing is sent, and a repeat is safe."""

    code = "ledger_unavailable"


class SchemaMismatch(LedgerUnavailable):
    """The ledger's schema is older or newer than this code."""

    code = "schema_mismatch"


class DispatchHeld(EffectBrokerError):
    """Dispatch is stopped until an operator releases it."""

    code = "dispatch_held"


class Fenced(EffectBrokerError):
    """The claim is lost to somebody else; the holder stops."""

    code = "fenced"


class IllegalTransition(EffectBrokerError):
    """An arrow that the table does not have: a defect, never a state."""

    code = "illegal_transition"

    def __init__(self, *, old: str | None, event: str, new: str) -> None:
        super().__init__(f"No arrow from {old or '(new)'} by {event} to {new}.")
        self.old, self.event, self.new = old, event, new


class CipherError(EffectBrokerError):
    """A data key is missing, or a ciphertext was moved from where it was written."""

    code = "cipher_error"


class TargetUnreadable(EffectBrokerError):
    """A target's list could not be read whole; nothing may be concluded from it."""

    code = "target_unreadable"


class KeysMissing(CipherError):
    """The keyring has lost keys under which rows may stand, or cannot be read at all."""

    code = "keys_missing"


class SecretNotFound(EffectBrokerError):
    """A secret reference resolves to nothing; the message names the reference only."""

    code = "secret_not_found"
