"""Idempotency keys: one request at a time under each, and what is kept of its answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from .records import KeyRecord
from .settings import KeyRecords
from .store import Store
from .wire import Answer, error_answer

REPLAYED = ("Idempotent-Replayed", "true")


def kept_answer(
    mode: KeyRecords, answer: Answer, *, committed: Answer | None
) -> Answer | None:
    """Say what is remembered under the key; None leaves the key free for another try.

    `committed` is what the commit alone would have answered. It differs from `answer`
    where an error hides the commit, and there the three modes part.
    """
    match mode:
        case "all_answers":
            return answer
        case "commits":
            return committed
        case "successes":
            return answer if 200 <= answer.status < 300 else None


class Keys:
    """A key is in use from admission until what it did is committed, not until the answer
    has been delivered: losing the answer does not keep the key busy.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._in_use: dict[str, tuple[int, str]] = {}

    @contextmanager
    def admitted(
        self, key: str | None, body_sha256: str, request_id: int
    ) -> Iterator[Answer | None]:
        """Hold the key for the block; give the answer that stands in the way, if any."""
        if key is None:
            yield None
            return
        obstacle = self._admit(key, body_sha256, request_id)
        try:
            yield obstacle
        finally:
            with self._lock:
                if self._in_use.get(key, (None,))[0] == request_id:
                    del self._in_use[key]

    def clear(self) -> None:
        with self._lock:
            self._in_use.clear()

    def _admit(self, key: str, body_sha256: str, request_id: int) -> Answer | None:
        # The record is read under the lock that frees keys: else a commit between the two
        # looks would be seen by neither.
        with self._lock:
            record = self._store.key_record(key)
            if record is not None:
                return _replay(record, body_sha256)
            running = self._in_use.get(key)
            if running is None:
                self._in_use[key] = (request_id, body_sha256)
                return None
        return _in_use() if running[1] == body_sha256 else _reused()


def _replay(record: KeyRecord, body_sha256: str) -> Answer:
    if record.body_sha256 != body_sha256:
        return _reused()
    return replace(record.answer, headers=(REPLAYED,))


def _reused() -> Answer:
    return error_answer(
        409, "idempotency_key_reuse", "this key was used with another body"
    )


def _in_use() -> Answer:
    return error_answer(
        409, "idempotency_key_in_use", "the first request with this key is running"
    )
