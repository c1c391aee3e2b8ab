"""A plain function as a tool: its signature is kept, and its body never runs."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from effect_broker.client.answers import Submission
from effect_broker.domain.errors import InvalidOperationKey
from effect_broker.domain.identity import check_operation_key
from effect_broker.domain.intent import EffectRequest

Key = str | Callable[..., str]

OPERATION_KEY: Final = "operation_key"

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolCalls:
    """Turns a call of a function into a request.

    `key` is a template over the function's parameters (`order:{order}:charge:v1`), each
    value percent-encoded so that different values never make one key; or a function of
    the same parameters. Without it the caller gives `operation_key` with each call, as a
    keyword. It must name the business intent: a key out of all arguments would swallow a
    second, equal call that was meant.
    """

    def __init__(self, tool: str, key: Key | None) -> None:
        self._tool = tool
        self._key = key

    def requests_of(
        self, function: Callable[..., object]
    ) -> Callable[..., EffectRequest]:
        """Return what turns a call of the function into a request.

        Raises:
            TypeError: the signature or the key's template cannot name one intent.
        """
        signature, name = inspect.signature(function), function.__name__
        self._check(name, signature)

        def request(*positional: Any, **named: Any) -> EffectRequest:
            given = named.pop(OPERATION_KEY, None) if self._key is None else None
            bound = signature.bind(*positional, **named)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            key = self._operation_key(arguments, given)
            return EffectRequest(key, self._tool, arguments, name)

        return request

    def dress(self, submitting: _Function, function: Callable[..., object]) -> _Function:
        """Give what submits the signature that callers and frameworks read."""
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        annotations = {**function.__annotations__, "return": Submission}
        if self._key is None:
            kind = inspect.Parameter.KEYWORD_ONLY
            key = inspect.Parameter(OPERATION_KEY, kind, annotation=str)
            parameters.append(key)
            annotations[OPERATION_KEY] = str
        submitting.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=Submission
        )
        submitting.__annotations__ = annotations
        return submitting

    def _operation_key(self, arguments: Mapping[str, Any], given: object) -> str:
        if self._key is None:
            return check_operation_key(given)
        if not isinstance(self._key, str):
            return check_operation_key(self._key(**arguments))
        return check_operation_key(self._key.format_map(_Parts(arguments)))

    def _check(self, name: str, signature: inspect.Signature) -> None:
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{name}: a tool's parameters must all have names.")
        if OPERATION_KEY in signature.parameters:
            raise TypeError(f"{name}: {OPERATION_KEY} is the broker's own parameter.")
        if isinstance(self._key, str):
            found = [it[1:] for it in string.Formatter().parse(self._key)]
            fields = {name for name, _, _ in found if name is not None}
            formatted = any(spec or conversion for _, spec, conversion in found)
            if not fields or formatted or not fields <= signature.parameters.keys():
                raise TypeError(
                    f"{name}: the key's template must name parameters, such as"
                    " order:{order}:charge:v1, and only those there are."
                )


class _Parts(dict[str, Any]):
    """Arguments as parts of a key, encoded when a template asks for them."""

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise InvalidOperationKey(
                f"{name} is a part of the operation key, and must be a text or a number."
            )
        return quote(str(value), safe="-_.~@+=")
