"""One request to a world from arrival to the last byte: logged, acted on, then answered.

Acting never depends on the peer: a caller that went away does not stop the commit.
"""

from .charge_body import BodyRefused, parsed_body
from .delivery import deliver, planned_outcome
from .faults import FaultKind, FaultQueue
from .holding import Abandoned, Holding
from .records import Arrival
from .store import Store
from .wire import Answer, Connection, Request
from .worlds import Visit, Worlds


class Visits:
    """Leads each request of a world through its life."""

    def __init__(
        self, store: Store, faults: FaultQueue, holding: Holding, worlds: Worlds
    ) -> None:
        self._store = store
        self._faults = faults
        self._holding = holding
        self._worlds = worlds

    def serve(self, connection: Connection, request: Request, world: str) -> str:
        """Serve one request and give its log line.

        Raises:
            OSError: the peer did not take the answer; the request log says so.
        """
        visit = self._arrived(connection, request, world)
        try:
            answer = self._worlds.answer(visit)
            self._wait_after_commit(visit)
            outcome = self._deliver(connection, visit, answer)
        except Abandoned:
            connection.close()
            outcome = "abandoned"
        finally:
            self._holding.finished(visit.request_id)
        fault = f" fault={visit.fault.fault}" if visit.fault else ""
        return (
            f"{request.method} {request.target} order={visit.order}{fault} -> {outcome}"
        )

    def _arrived(self, connection: Connection, request: Request, world: str) -> Visit:
        order, reference = self._about(request)
        on = "post" if request.method == "POST" else "lookup"
        fault = self._faults.take(world=world, order=order, on=on)
        arrival = Arrival(
            world=world,
            method=request.method,
            path=request.target,
            order=order,
            reference=reference,
            key=request.header("Idempotency-Key"),
            send_deadline=request.header("X-Send-Deadline"),
            header_names=tuple(name for name, _ in request.headers),
            body_sha256=request.body_sha256,
            connection_id=connection.name,
            fault=fault.fault if fault else None,
        )
        request_id = self._store.arrived(arrival)
        return Visit(request_id, world, request, order, fault)

    def _about(self, request: Request) -> tuple[str | None, str | None]:
        """Say which order and reference a request is about; a look is about the order
        that its key or reference was last posted for.
        """
        if request.method != "POST":
            key, reference = request.query.get("key"), request.query.get("reference")
            order = self._store.order_asked_by(key=key, reference=reference)
            return order, reference
        try:
            body = parsed_body(request)
        except BodyRefused:
            return None, None
        return body.order, body.reference

    def _wait_after_commit(self, visit: Visit) -> None:
        if visit.fault and visit.suffers(FaultKind.DELAY_AFTER_COMMIT):
            self._holding.delay(visit.fault.seconds)
        if visit.suffers(FaultKind.HOLD_AFTER_COMMIT):
            self._holding.hold(visit.request_id, visit.world, visit.order, "after_commit")

    def _deliver(
        self, connection: Connection, visit: Visit, answer: Answer | None
    ) -> str:
        """Record the ending first: whoever reads the answer may read the log at once."""
        outcome = planned_outcome(visit.fault)
        if connection.peer_left():
            outcome = "client_gone"
        status = answer.status if answer else None
        self._store.ended(visit.request_id, outcome, status)
        try:
            deliver(
                connection,
                answer,
                visit.fault,
                keep_alive=visit.request.keep_alive,
                holding=self._holding,
            )
        except OSError:
            self._store.ended(visit.request_id, "client_gone", status)
            raise
        return f"{outcome} {status or ''}".rstrip()
