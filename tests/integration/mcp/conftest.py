"""The world of the broker's own tests, on either store."""

from __future__ import annotations

from tests.integration.broker.conftest import world as world
