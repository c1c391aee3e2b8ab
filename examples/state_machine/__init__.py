"""A workflow that charges an order through the broker, and waits for the receipt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

DEFINITION: Final = Path(__file__).parent / "order.asl.json"


def definition(submit_alias: str) -> str:
    """Return the state machine with the function that it submits to filled in.

    `submit_alias` is the ARN of the alias `tenant-<slug>`: it says for whom.
    """
    text = DEFINITION.read_text().replace("${SubmitAlias}", submit_alias)
    json.loads(text)
    return text
