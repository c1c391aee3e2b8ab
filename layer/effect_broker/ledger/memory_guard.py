"""Keeps the stores without a database out of production, whoever builds them."""

from __future__ import annotations

import os


def refuse_in_production() -> None:
    """Accept every environment but production.

    The variable is read here and not passed: a caller must not be able to forget it.

    Raises:
        RuntimeError: this process is configured for production.
    """
    if os.environ.get("EFFECT_BROKER_ENVIRONMENT") == "production":
        raise RuntimeError("A ledger in memory is no authority.")
