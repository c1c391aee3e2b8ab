"""The control surface: switch the target, queue faults, and read the truth it keeps."""

import json
from collections.abc import Callable
from dataclasses import asdict

from .faults import WORLDS, FaultQueue, FaultRefused, parsed_fault
from .holding import Holding
from .keys import Keys
from .records import Search
from .settings import SettingRefused
from .store import Store
from .wire import Answer, Request, error_answer, json_answer

WAIT_SECONDS_MAX = 60.0


class ControlRefused(ValueError):
    """A question or an order to the control surface cannot be read."""


class Control:
    """Answers what is not a world; a path or value it does not know changes nothing."""

    def __init__(
        self, store: Store, faults: FaultQueue, holding: Holding, keys: Keys
    ) -> None:
        self._store = store
        self._faults = faults
        self._holding = holding
        self._keys = keys
        self._routes: dict[tuple[str, str], Callable[[Request], object]] = {
            ("GET", "/healthz"): lambda request: {"status": "ok"},
            ("GET", "/control/settings"): lambda request: asdict(store.settings),
            ("PUT", "/control/settings"): self._change_settings,
            ("GET", "/control/faults"): lambda request: {"faults": faults.left()},
            ("POST", "/control/faults"): self._queue_fault,
            ("DELETE", "/control/faults"): self._forget_faults,
            ("GET", "/control/held"): self._held,
            ("POST", "/control/release"): self._release,
            ("GET", "/control/charges"): self._charges,
            ("GET", "/control/requests"): self._requests,
            ("POST", "/control/reset"): self._reset,
        }

    def answer(self, request: Request) -> Answer:
        route = self._routes.get((request.method, request.path))
        if route is None:
            known = any(path == request.path for _, path in self._routes)
            return (
                error_answer(405, "method_not_allowed")
                if known
                else error_answer(404, "not_found")
            )
        try:
            return json_answer(200, route(request))
        except (ControlRefused, FaultRefused, SettingRefused) as refused:
            return error_answer(400, "invalid_request", str(refused))

    def _change_settings(self, request: Request) -> object:
        self._store.change_settings(self._store.settings.changed(_document(request)))
        return asdict(self._store.settings)

    def _queue_fault(self, request: Request) -> object:
        fault = parsed_fault(_document(request))
        self._faults.queue(fault)
        return asdict(fault)

    def _forget_faults(self, request: Request) -> object:
        order = _query(request, "order").get("order")
        if not order:
            raise ControlRefused("name an order; a reset drops all faults")
        return {"forgotten": self._faults.forget(order)}

    def _held(self, request: Request) -> object:
        query = _query(request, "order", "count", "wait")
        return {
            "held": self._holding.held(
                query.get("order"),
                count=int(_number("count", query.get("count", "1"), 10_000)),
                wait_seconds=_number("wait", query.get("wait", "0"), WAIT_SECONDS_MAX),
            )
        }

    def _release(self, request: Request) -> object:
        order = _document(request).get("order")
        if order is not None and not isinstance(order, str):
            raise ControlRefused("order is a text")
        return {"released": self._holding.release(order)}

    def _charges(self, request: Request) -> object:
        query = _query(request, "order", "world")
        order, world = query.get("order"), query.get("world")
        if world is not None and world not in WORLDS:
            raise ControlRefused(f"world is one of {', '.join(WORLDS)}")
        charges = self._store.charges(Search(world=world, order=order))
        rows = [{"world": charge.world, **charge.public()} for charge in charges]
        return {"count": len(rows), "charges": rows}

    def _requests(self, request: Request) -> object:
        order = _query(request, "order").get("order")
        return {"requests": self._store.requests(order)}

    def _reset(self, request: Request) -> object:
        """Clear everything; the store first, so that whoever wakes up finds no row."""
        self._faults.clear()
        self._store.reset()
        self._holding.abandon()
        self._keys.clear()
        return {"status": "reset"}


def _document(request: Request) -> dict[str, object]:
    try:
        document = json.loads(request.body or b"{}")
    except ValueError:
        raise ControlRefused("the body is not JSON") from None
    if not isinstance(document, dict):
        raise ControlRefused("the body is not an object")
    return document


def _query(request: Request, *known: str) -> dict[str, str]:
    query = request.query
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise ControlRefused(f"unknown parameter: {', '.join(unknown)}")
    return dict(query)


def _number(name: str, text: str, largest: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= largest:
        raise ControlRefused(f"{name} is from 0 to {largest:g}")
    return number
