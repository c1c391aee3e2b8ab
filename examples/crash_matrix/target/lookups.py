"""What each world tells when it is asked: by id, by its own parameter, or over a window.

An unknown parameter is refused. To ignore it would list charges nobody asked for, and a
caller would take the first of them for its own.
"""

from collections.abc import Mapping

from .instants import now, parsed
from .records import Search
from .store import Store
from .wire import Answer, error_answer, json_answer

WINDOW = ("created_after", "created_before")
# The plain world has no parameter of its own: it is listed over a window, for an audit.
PARAMETERS = {
    "keyed": ("key", *WINDOW),
    "lookup": ("reference", *WINDOW),
    "plain": WINDOW,
}


class QuestionRefused(ValueError):
    """The question has a parameter this world does not know, or one without a meaning."""


def found(
    store: Store, world: str, charge_id: str | None, query: Mapping[str, str]
) -> Answer:
    """Answer one look; the lookup world shows a charge once its lag is over."""
    if world == "plain" and (charge_id or not query or set(query) - set(WINDOW)):
        return error_answer(404, "not_found", "this target cannot be asked")
    lag_seconds = store.settings.settlement_lag_seconds if world == "lookup" else 0.0
    try:
        search = _search(world, charge_id, query, settled_at=now() - lag_seconds)
    except QuestionRefused as refused:
        return error_answer(400, "invalid_parameter", str(refused))
    charges = store.charges(search)
    if charge_id is None:
        return json_answer(200, {"data": [charge.public() for charge in charges]})
    if not charges:
        return error_answer(404, "not_found")
    return json_answer(200, charges[0].public())


def _search(
    world: str, charge_id: str | None, query: Mapping[str, str], *, settled_at: float
) -> Search:
    for name, value in query.items():
        if name not in PARAMETERS[world] or not value:
            raise QuestionRefused(f"{name} cannot be searched, or is empty")
    return Search(
        world=world,
        id=charge_id,
        key=query.get("key"),
        reference=query.get("reference"),
        created_after=_instant(query, "created_after"),
        created_before=_instant(query, "created_before"),
        settled_at=settled_at,
    )


def _instant(query: Mapping[str, str], name: str) -> float | None:
    if name not in query:
        return None
    try:
        return parsed(query[name])
    except ValueError as error:
        raise QuestionRefused(f"{name}: {error}") from None
