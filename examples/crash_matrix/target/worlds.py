"""The three kinds of target: keyed, lookup and plain."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

from .charge_body import BodyRefused, ChargeBody, parsed_body
from .delivery import scripted_answer
from .faults import Fault, FaultKind
from .holding import Holding
from .instants import now, parsed
from .keys import Keys, kept_answer
from .lookups import found
from .records import Charge, KeyRecord
from .store import Store
from .wire import Answer, Request, error_answer, json_answer

DECLINED_AMOUNT = 402


@dataclass(frozen=True)
class Visit:
    """One request to one world, with the fault that was drawn for it."""

    request_id: int
    world: str
    request: Request
    order: str | None
    fault: Fault | None

    def suffers(self, *kinds: FaultKind) -> bool:
        return self.fault is not None and self.fault.fault in kinds

    @property
    def key(self) -> str | None:
        """The idempotency key, where this world honours one."""
        header = self.request.header("Idempotency-Key")
        return header or None if self.world == "keyed" else None


class Worlds:
    """Decides what a request does and what it is told; knows nothing of sockets."""

    def __init__(self, store: Store, holding: Holding, keys: Keys) -> None:
        self._store = store
        self._holding = holding
        self._keys = keys

    def answer(self, visit: Visit) -> Answer | None:
        """Act on the request and give its answer; None where it is cut off before acting.

        Raises:
            Abandoned: the service was reset meanwhile; nothing was committed.
        """
        parts = visit.request.path.strip("/").split("/")[1:]
        match visit.request.method, parts:
            case "POST", ["charges"]:
                return self._posted(visit)
            case "GET", ["charges"]:
                return self._looked_up(visit, None)
            case "GET", ["charges", charge_id]:
                return self._looked_up(visit, charge_id)
            case "POST" | "GET", _:
                return error_answer(404, "not_found")
            case _:
                return error_answer(405, "method_not_allowed")

    def _posted(self, visit: Visit) -> Answer | None:
        if visit.suffers(FaultKind.STATUS, FaultKind.REDIRECT):
            return self._refused_by_script(visit)
        with self._admitted(visit) as obstacle:
            if self._cut_before_commit(visit):
                return None
            answer = self._late(visit) or obstacle or self._charged(visit)
        if visit.fault and visit.suffers(FaultKind.FAIL_AFTER_COMMIT):
            return scripted_answer(visit.fault)
        return answer

    def _refused_by_script(self, visit: Visit) -> Answer:
        """Answer as told; a decline or a 5xx is the endpoint's own answer and may be
        kept, any other status stands in front of the key's record.
        """
        assert visit.fault is not None
        answer = scripted_answer(visit.fault)
        if answer.status == 402 or answer.status >= 500:
            with self._admitted(visit) as obstacle:
                if obstacle is None:
                    self._commit(visit, None, answer, committed=None)
        return answer

    def _charged(self, visit: Visit) -> Answer:
        try:
            body = parsed_body(visit.request)
        except BodyRefused as refused:
            code = "invalid_body" if refused.status == 400 else "invalid_request"
            return error_answer(refused.status, code, str(refused))
        if body.amount == DECLINED_AMOUNT:
            declined = error_answer(402, "card_declined")
            self._commit(visit, None, declined, committed=None)
            return declined
        charge = _new_charge(visit, body)
        created = json_answer(201, charge.public())
        hidden = visit.fault if visit.suffers(FaultKind.FAIL_AFTER_COMMIT) else None
        answer = scripted_answer(hidden) if hidden else created
        self._commit(visit, charge, answer, committed=created)
        return answer

    def _commit(
        self,
        visit: Visit,
        charge: Charge | None,
        answer: Answer,
        *,
        committed: Answer | None,
    ) -> None:
        record = None
        mode = self._store.settings.key_records
        kept = kept_answer(mode, answer, committed=committed)
        if visit.key is not None and kept is not None:
            record = KeyRecord(visit.key, visit.request.body_sha256, kept)
        if charge or record:
            self._store.commit(visit.request_id, charge, record)

    def _admitted(self, visit: Visit) -> AbstractContextManager[Answer | None]:
        return self._keys.admitted(visit.key, visit.request.body_sha256, visit.request_id)

    def _late(self, visit: Visit) -> Answer | None:
        """Refuse what comes after its own deadline; asked right before the commit."""
        if not self._store.settings.enforce_deadline:
            return None
        deadline = visit.request.header("X-Send-Deadline")
        if deadline is None:
            return error_answer(400, "deadline_missing")
        try:
            passed = now() > parsed(deadline)
        except ValueError:
            return error_answer(400, "deadline_invalid")
        return error_answer(400, "deadline_passed") if passed else None

    def _cut_before_commit(self, visit: Visit) -> bool:
        """Live through what comes before anything is done; True ends the request here."""
        if visit.fault and visit.suffers(FaultKind.DELAY_BEFORE_COMMIT):
            self._holding.delay(visit.fault.seconds)
        if visit.suffers(FaultKind.HOLD_BEFORE_COMMIT):
            self._holding.hold(
                visit.request_id, visit.world, visit.order, "before_commit"
            )
        return visit.suffers(FaultKind.DROP_BEFORE_COMMIT, FaultKind.RESET_BEFORE_COMMIT)

    def _looked_up(self, visit: Visit, charge_id: str | None) -> Answer | None:
        if visit.fault and visit.suffers(FaultKind.STATUS, FaultKind.REDIRECT):
            return scripted_answer(visit.fault)
        if self._cut_before_commit(visit):
            return None
        answer = found(self._store, visit.world, charge_id, visit.request.query)
        if visit.fault and visit.suffers(FaultKind.FAIL_AFTER_COMMIT):
            return scripted_answer(visit.fault)
        return answer


def _new_charge(visit: Visit, body: ChargeBody) -> Charge:
    return Charge(
        id=f"ch_{os.urandom(12).hex()}",
        world=visit.world,
        amount=body.amount,
        currency=body.currency,
        order=body.order,
        reference=body.reference,
        key=visit.key,
        created_at=now(),
    )
