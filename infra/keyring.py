"""A fresh keyring: what rows are encrypted under and downstream keys derive from."""

from __future__ import annotations

import base64
import json
import secrets

KEY_BYTES = 32


def new_keyring() -> str:
    """Return a keyring of one data key and one HMAC key, as the JSON that a secret holds.

    It is made once. A deployment that loses its keyring can read no argument, result or
    evidence that it has stored.
    """
    return json.dumps(
        {
            "data_keys": {"k1": _key()},
            "active_data_key": "k1",
            "hmac_keys": {"h1": _key()},
        }
    )


def _key() -> str:
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
