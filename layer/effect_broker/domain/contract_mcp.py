"""What a contract says about a tool of an upstream MCP server, and about its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, model_validator

from effect_broker.domain.contract_http import (
    PROVES_ABSENCE,
    Headers,
    Meaning,
    Scope,
    SecretRef,
    Terms,
    UrlText,
)
from effect_broker.domain.pointer import JsonPointer

ToolName = Annotated[StrictStr, Field(min_length=1, max_length=128)]

_ENTRY: Final = re.compile(
    r"error(?:/.{1,128})?|rpc/(?:0|-?[1-9]\d{0,8})|[45](?:xx|\d\d)"
)
_HIDES_COMMITS: Final = frozenset({"5xx", "rpc/-32603"})
"""Whatever went wrong, the server says no more: -32603 is JSON-RPC's internal error."""


class McpMeaningTable(BaseModel):
    """Error results (`error`, `error/<code>`), JSON-RPC errors (`rpc/-32602`), statuses.

    `code` points to where the code stands in an error result. A result that is no error
    is a commit, and what is not listed is ambiguous: a tool may fail after it has acted.
    """

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)
    __pydantic_extra__: dict[str, Meaning] = Field(init=False)

    code: JsonPointer | None = None

    @property
    def entries(self) -> Mapping[str, Meaning]:
        """The table without `code`."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _check(self) -> McpMeaningTable:
        for key, meaning in self.entries.items():
            if not _ENTRY.fullmatch(key):
                raise ValueError(
                    f"{key!r} is neither error, error/code, rpc/number nor a status"
                )
            if key in _HIDES_COMMITS and meaning in PROVES_ABSENCE:
                raise ValueError(
                    f"{key} cannot mean {meaning}: such an error may hide a commit"
                )
            if key.startswith("error/") and self.code is None:
                raise ValueError(f"{key!r} needs 'code': where is it in the result?")
        return self


class McpLookup(Terms):
    """A tool that finds an effect by the downstream key, and changes nothing.

    `[contracts.probe]` says what its structured result is worth.
    """

    tool: ToolName
    key_argument: JsonPointer
    arguments: dict[str, Any] = Field(default_factory=dict)


class McpTerms(Terms):
    """A tool of an upstream MCP server; its annotations are no contract."""

    url: UrlText | SecretRef
    tool: ToolName
    headers: Headers = Field(default_factory=dict)
    account: Scope | None = None
    mode: Scope | None = None
    allow_private: StrictBool = False
    external_id: JsonPointer | None = None
    key_argument: JsonPointer | None = None
    meaning: McpMeaningTable = Field(default_factory=McpMeaningTable)
    lookup: McpLookup | None = None


class McpUpstream(Terms):
    """An upstream MCP server of which some tools are declared to change nothing."""

    url: UrlText | SecretRef
    headers: Headers = Field(default_factory=dict)
    read_only: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    allow_private: StrictBool = False
