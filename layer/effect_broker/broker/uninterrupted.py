"""Work that must reach its end although its task was cancelled: the record of what was
sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, then pass on a cancellation that arrived meanwhile.

    Nothing is left running behind the caller's back: unlike a bare shield, this waits.
    """
    task = asyncio.create_task(work)
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            interrupted = True
    result = task.result()
    if interrupted:
        raise asyncio.CancelledError
    return result
