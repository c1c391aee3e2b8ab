"""The functions of one deployment beside a Step Functions that only waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.direct.step_functions import WaitingTasks
from tests.integration.functions.conftest import _root_logger as _root_logger
from tests.integration.functions.conftest import lambdas as lambdas


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitingTasks]:
    """Yield tasks that wait for their tokens to be answered."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with WaitingTasks() as tasks:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", tasks.url)
        yield tasks
