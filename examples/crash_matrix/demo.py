"""The main job: a worker dies at the worst moment, and one charge stays one charge.

Three orders at three kinds of target lose their worker after the target has committed
and before anybody knows. What then happens is read as a caller would read it, through
the HTTP API; what was really charged is asked of the target.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import NoReturn

from examples.crash_matrix.scenarios import Keyed, Lookup, Plain
from examples.crash_matrix.scene import Scene, Stage
from examples.crash_matrix.stack import Stack, StackFailed
from examples.crash_matrix.target.client import TargetRefused
from examples.crash_matrix.telling import (
    DemoFailed,
    Figures,
    PromiseBroken,
    Promises,
    Teller,
)
from examples.crash_matrix.user import Order, UnexpectedAnswer, User
from examples.crash_matrix.workers import Pauses, WorkerNotFound
from localstack.workspace import MINISTACK, Workspace, WorkspaceError

ORDERS = {"A": "order-42", "B": "order-43", "C": "order-44"}
TARGETS = {"A": "honours a key", "B": "can be asked", "C": "does neither"}

CANNOT_BE_SHOWN = (
    DemoFailed,
    OSError,
    StackFailed,
    TargetRefused,
    UnexpectedAnswer,
    WorkerNotFound,
    WorkspaceError,
)

KEPT, BROKEN, NOT_SHOWN, INTERRUPTED = 0, 1, 2, 130


def demo() -> int:
    """Run the demo and return the exit code.

    0: every promise held. 1: one did not, and it is named. 2: the demo itself could not
    be carried out, which says nothing about any promise.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    teller = Teller()
    try:
        return _shown(teller)
    except CANNOT_BE_SHOWN as error:
        print(f"demo: {error}", file=sys.stderr)
        return NOT_SHOWN
    except KeyboardInterrupt:
        print("demo: interrupted; no worker is left paused", file=sys.stderr)
        return INTERRUPTED


def _shown(teller: Teller) -> int:
    stack = _stack(teller)
    promises = Promises(teller)
    with stack.caller() as user, Pauses() as pauses:
        scenes = _scenes(Stage(stack, user, teller, promises, pauses))
        try:
            _play(teller, *scenes)
        except PromiseBroken as broken:
            promises.check(broken.scenario, broken.promise, held=False)
        finally:
            for scene in scenes:
                scene.release()
        figures = {s.letter: s.figures() for s in scenes if s.effect_id}
        _write(stack.workspace.state / "demo.json", figures, promises)
        teller.table([(s, TARGETS[s], found) for s, found in figures.items()])
        code = verdict(promises)
        if code == KEPT:
            teller.console.print(f"Every promise held, after {teller.elapsed:.0f} s.")
            teller.console.print(_way_out(scenes[-1]), soft_wrap=True, markup=False)
        return code


def _stack(teller: Teller) -> Stack:
    workspace = Workspace.from_environment()
    if workspace.kind != MINISTACK:
        raise DemoFailed(
            "workers in containers cannot be killed from here: unset LOCAL_AWS"
        )
    stack = Stack.found(workspace)
    if stack is not None:
        teller.heading(f"The local broker runs already, with this code: {stack.url}")
        return stack
    teller.heading("The local broker does not run with this code yet: make up")
    return Stack.up(workspace)


def _play(teller: Teller, keyed: Keyed, lookup: Lookup, plain: Plain) -> None:
    """Play the three in turns, so that each waits while another acts."""
    teller.heading("Three workers die between the target's commit and its answer")
    for scene in (keyed, lookup, plain):
        scene.submit_and_kill()
    teller.heading(
        "Recovery: what each target lets the broker prove (the sweep runs each minute;"
        " here it is also sent at each lease end, so that nobody has to wait)"
    )
    paused = keyed.pause_second_worker()
    lookup.recover()
    plain.recover()
    effect = keyed.finish_past(paused)
    keyed.wake(paused, effect)
    teller.heading("The callers have heard nothing, and ask again")
    for asking in (keyed, lookup, plain):
        asking.resubmit()
        asking.look()


def _scenes(stage: Stage) -> tuple[Keyed, Lookup, Plain]:
    run = _run_number(stage.stack, stage.user)
    if run > 1:
        stage.teller.heading(
            f"Run {run} on this ledger, which never forgets an operation key: the orders"
            f" are {ORDERS['A']}-{run} and so on"
        )
    names = {k: v if run == 1 else f"{v}-{run}" for k, v in ORDERS.items()}
    return (
        Keyed(stage, "A", Order("demo.charge.keyed", names["A"])),
        Lookup(stage, "B", Order("demo.charge.lookup", names["B"])),
        Plain(stage, "C", Order("demo.charge.plain", names["C"])),
    )


def _run_number(stack: Stack, user: User) -> int:
    """Count on from the last run that the ledger or the target remembers."""
    recorded = user.effects(operation_prefix=f"order:{ORDERS['A']}")
    keys = [str(effect["operation_key"]).split(":")[1] for effect in recorded]
    charged = [charge.order for charge in stack.target.charges()]
    runs = [run for order in (*keys, *charged) if (run := run_of(order))]
    return max(runs, default=0) + 1


def run_of(order: str) -> int | None:
    """Return the run that an order belongs to, or None if it is not the demo's."""
    names = "|".join(map(re.escape, ORDERS.values()))
    match = re.fullmatch(rf"(?:{names})(?:-([0-9]+))?", order)
    return int(match[1] or 1) if match else None


def verdict(promises: Promises) -> int:
    """Name each promise that did not hold, and return the exit code."""
    for broken in promises.broken:
        print(f"demo: promise broken: {broken}", file=sys.stderr)
    return BROKEN if promises.broken else KEPT


def _way_out(plain: Scene) -> str:
    """Say how an operator, who looks at the target, ends what the broker cannot know."""
    stack = plain.stage.stack
    charge = stack.target.charges(plain.order.order)[0]
    finding = {
        "decision": "committed",
        "reason": "the charge stands in the list of the target",
        "evidence": f"charge {charge.id}",
        "observed_at": charge.created_at,
        "expected_version": plain.effect()["version"],
        "decision_id": f"demo-{plain.order.order}",
        "external_id": charge.id,
    }
    return (
        "\nC waits for somebody who looks at the target and says what is there:\n\n"
        f"  source {os.path.relpath(stack.workspace.environment_file)}\n"
        f'  curl "$EFFECT_BROKER_URL/v1/effects/{plain.effect_id}/resolve" \\\n'
        '    -H "Authorization: Bearer $EFFECT_BROKER_OPERATOR_KEY" \\\n'
        "    -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(json.dumps(finding))}"
    )


def _write(path: Path, figures: dict[str, Figures], promises: Promises) -> None:
    document = {
        letter: {
            **asdict(found),
            "held": promises.held(letter),
            "promises": promises.seen.get(letter, {}),
        }
        for letter, found in figures.items()
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(fresh, path)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
