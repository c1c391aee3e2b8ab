"""One turn of an agent: the model asks for tools, the broker keeps each effect single.

The operation key is built from what stays when the turn is run again: the session, the
turn, the tool and the place of the call among the turn's calls of that tool. The model's
own call ids are new with every answer and name nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import (
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)

from effect_broker import keys

CallTool = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Submits (operation key, tool, arguments) and returns what the broker tells about it."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Runs turns of one session; holds nothing between them.

    `tools` are offered to the model under the names that the broker knows, with their
    dots written as hyphens, since model names of tools may not hold one.
    """

    model: AsyncOpenAI
    model_name: str
    tools: Sequence[ChatCompletionToolParam]
    call_tool: CallTool

    async def turn(self, session: str, turn: int, message: str) -> str:
        """Answer the user's message, and return the model's last words.

        May be run again from its start after any failure, as often as it takes: each tool
        call meets the effect of the run before.
        """
        running = _Turn(session, turn)
        messages: list[ChatCompletionMessageParam] = [
            {"role": "user", "content": message}
        ]
        while True:
            answer = await self.model.chat.completions.create(
                model=self.model_name, messages=messages, tools=list(self.tools)
            )
            said = answer.choices[0].message
            calls = [
                call
                for call in said.tool_calls or ()
                if isinstance(call, ChatCompletionMessageFunctionToolCall)
            ]
            if not calls:
                return said.content or ""
            messages.append(
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {
                                "name": call.function.name,
                                "arguments": call.function.arguments,
                            },
                        }
                        for call in calls
                    ],
                }
            )
            for call in calls:
                told = await self._called(running, call)
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "content": json.dumps(told)}
                )

    async def _called(
        self, running: _Turn, call: ChatCompletionMessageFunctionToolCall
    ) -> dict[str, Any]:
        tool = call.function.name.replace("-", ".")
        key = running.key(tool)
        return await self.call_tool(key, tool, json.loads(call.function.arguments))


@dataclass(slots=True)
class _Turn:
    session: str
    turn: int
    calls: Counter[str] = field(default_factory=Counter)

    def key(self, tool: str) -> str:
        """Name the turn's next call of `tool`."""
        place = self.calls[tool]
        self.calls[tool] += 1
        return keys.openai_agents(self.session, self.turn, tool=tool, occurrence=place)
