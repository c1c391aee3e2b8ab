"""The MCP server over the broker: lists tools, calls them, and tells the truth.

A lost call is safe to make again under the same operation key, whatever request id it
then has. A closed stream means that nobody waits any more, never that something is
undone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final
from uuid import UUID

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import BaseModel

from effect_broker.broker.facade import EffectBroker
from effect_broker.domain.errors import EffectBrokerError, InvalidArguments, UnknownTool
from effect_broker.domain.status import TERMINAL
from effect_broker.ports import Credential, EffectQuery
from effect_broker.surfaces import requests, serving
from effect_broker.surfaces.auth import require
from effect_broker.surfaces.mcp.answers import (
    EffectResult,
    EffectsResult,
    ReceiptResult,
    effect_result,
)
from effect_broker.surfaces.mcp.passing import Passing
from effect_broker.surfaces.mcp.tools import (
    MANAGEMENT,
    OPERATION_KEY,
    PASSING,
    SUBMITTING,
    WAIT_SECONDS_MAX,
    allows,
    proxied,
)
from effect_broker.surfaces.problem import Problem, internal_problem, problem_of
from effect_broker.surfaces.telling import effect_answer

PATIENCE: Final = timedelta(seconds=3)
"""How long a proxied tool holds its answer: clients give up within seconds."""

LISTED_MAX: Final = 100

CallerOf = Callable[[Any], Awaitable[Credential]]
"""Says whose request a context is; raises Unauthenticated where it is nobody's."""

_log: Final = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "Tools here change the world through effect-broker. Each takes an operation_key that"
    " names the business intent. If an answer is lost, call again under the same key: it"
    " returns the same effect and nothing happens twice. Never make a new key for the"
    " same intent. An outcome that is unknown is not a failure: ask get_effect."
)


@dataclass(frozen=True, slots=True)
class BrokerTools:
    """What the server's requests are answered from."""

    broker: EffectBroker
    caller_of: CallerOf
    patience: timedelta = PATIENCE
    passing: Passing | None = None

    def server(self) -> Server[Any]:
        """Return a server; it holds no session and may be made for each request."""
        server: Server[Any] = Server(
            "effect-broker",
            version=version("effect-broker"),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        server.middleware.clear()
        return server

    async def _list(
        self, context: Any, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """List what this key may call; a refusal is an error with its stable code."""
        try:
            return await self._listed(context)
        except EffectBrokerError as error:
            problem = problem_of(error)
        except Exception as error:  # noqa: BLE001 the outermost line of a listing
            problem = _logged(error)
        raise MCPError(INTERNAL_ERROR, f"{problem.code}: {problem.detail}")

    async def _listed(self, context: Any) -> ListToolsResult:
        """Return the tools; what no contract classifies is not among them."""
        caller = await self.caller_of(context)
        tools = [
            tool for tool, scopes in MANAGEMENT.values() if allows(caller.scopes, scopes)
        ]
        if allows(caller.scopes, SUBMITTING):
            tools += [
                tool
                for published in await self.broker.tools()
                if (tool := _proxied(published.contract)) is not None
            ]
        if self.passing is not None and allows(caller.scopes, PASSING):
            taken = {tool.name for tool in tools}
            passed = await self.passing.tools()
            tools += [tool for tool in passed if tool.name not in taken]
        return ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        """Call a tool; a refusal is an error result that says what to do."""
        try:
            caller = await self.caller_of(context)
            arguments = params.arguments or {}
            if self.passing is not None and await self._passes(params.name):
                require(caller, *PASSING)
                return await self.passing.call(params.name, arguments)
            answer = await self._answer(caller, params.name, arguments)
        except EffectBrokerError as error:
            return _refused(error)
        except Exception as error:  # noqa: BLE001 the outermost line of a call
            return _defect(error)
        structured = answer.model_dump(mode="json")
        return CallToolResult(
            content=[TextContent(type="text", text=json.dumps(structured))],
            structured_content=structured,
        )

    async def _passes(self, name: str) -> bool:
        """Say whether a tool passes by: never one that a contract or the broker has."""
        if self.passing is None or not self.passing.passes(name) or name in MANAGEMENT:
            return False
        return await self.broker.catalog.active(name) is None

    async def _answer(
        self, caller: Credential, name: str, arguments: dict[str, Any]
    ) -> BaseModel:
        if name in MANAGEMENT:
            tool, scopes = MANAGEMENT[name]
            require(caller, *scopes)
            _check_fields(tool, arguments)
            return await self._manage(caller, name, arguments)
        require(caller, *SUBMITTING)
        return await self._submit(caller, name, arguments)

    async def _manage(
        self, caller: Credential, name: str, arguments: dict[str, Any]
    ) -> BaseModel:
        tenant_id = caller.tenant_id
        if name == "list_unknown_effects":
            return await self._unknown(tenant_id, _whole(arguments, "limit", 20))
        effect_id = requests.effect_id(str(arguments["effect_id"]))
        if name == "get_receipt":
            receipt = await self.broker.replay_receipt(tenant_id, effect_id)
            return ReceiptResult(receipt=dict(receipt))
        if name == "request_reconciliation":
            actor = f"key:{caller.key_id}"
            answer = await serving.reconcile(
                self.broker, tenant_id, effect_id, actor=actor
            )
            return effect_result(answer)
        wait_seconds = _whole(arguments, "wait_seconds", 0)
        return await self._effect(tenant_id, effect_id, wait_seconds)

    async def _effect(
        self, tenant_id: UUID, effect_id: UUID, wait_seconds: int
    ) -> EffectResult:
        patience = timedelta(seconds=min(wait_seconds, WAIT_SECONDS_MAX))
        view = (
            await self.broker.wait(tenant_id, effect_id, patience)
            if patience
            else await self.broker.get(tenant_id, effect_id)
        )
        receipt = None
        if view.snapshot.status in TERMINAL:
            receipt = dict(await self.broker.replay_receipt(tenant_id, effect_id))
        return effect_result(effect_answer(view), receipt=receipt)

    async def _unknown(self, tenant_id: UUID, limit: int) -> EffectsResult:
        query = EffectQuery(unknown=True, limit=limit + 1)
        found = await self.broker.page(tenant_id, query)
        effects = [effect_result(effect_answer(view)) for view in found[:limit]]
        return EffectsResult(effects=effects, more=len(found) > limit)

    async def _submit(
        self, caller: Credential, tool: str, arguments: dict[str, Any]
    ) -> EffectResult:
        given = {key: arguments[key] for key in arguments if key != OPERATION_KEY}
        body: dict[str, Any] = {"tool": tool, "arguments": given}
        if OPERATION_KEY in arguments:
            body[OPERATION_KEY] = arguments[OPERATION_KEY]
        body["requested_by"] = f"mcp:key:{caller.key_id}"
        request = requests.submission(body)
        answer = await serving.submit(
            self.broker, caller.tenant_id, request, patience=self.patience
        )
        return effect_result(answer)


def _proxied(contract: Any) -> Tool | None:
    tool = proxied(contract)
    if tool is None or contract.tool in MANAGEMENT:
        _log.warning("tool %s is not offered by MCP: a name is taken", contract.tool)
        return None
    return tool


def _check_fields(tool: Tool, arguments: dict[str, Any]) -> None:
    """Hold a call of ours to its schema; a proxied one is held to its contract's."""
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(tool.input_schema).iter_errors(arguments)
    places = sorted({"/".join(map(str, it.path)) or it.validator for it in errors})
    if places:
        raise InvalidArguments(f"{tool.name} does not take this: {', '.join(places)}.")


def _whole(arguments: dict[str, Any], name: str, default: int) -> int:
    """Return an integer of checked arguments; 1.0 is one too, as JSON Schema says."""
    return int(arguments.get(name, default))


def _refused(error: EffectBrokerError) -> CallToolResult:
    """Tell a refusal, or a defect without its text, as an error that can be acted on."""
    problem = problem_of(error)
    document = problem.document()
    if isinstance(error, UnknownTool):
        document["detail"] = f"{error.message} Only tools with a contract are offered."
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(document))], is_error=True
    )


def _defect(error: Exception) -> CallToolResult:
    """Tell a defect without its text; `instance` finds it in the log."""
    text = json.dumps(_logged(error).document())
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _logged(error: Exception) -> Problem:
    problem = internal_problem()
    occurrence = problem.members.get("instance")
    _log.error(
        "a request of MCP met a defect", exc_info=error, extra={"occurrence": occurrence}
    )
    return problem
