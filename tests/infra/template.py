"""A CloudFormation template, read as tests ask about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Template:
    """One synthesized template."""

    document: Mapping[str, Any]

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all resources of a type, by logical id."""
        return {
            logical_id: resource.get("Properties", {})
            for logical_id, resource in self.document["Resources"].items()
            if resource["Type"] == kind
        }

    def resource(self, logical_id: str) -> Mapping[str, Any]:
        """Return one resource whole."""
        found: Mapping[str, Any] = self.document["Resources"][logical_id]
        return found

    def functions(self) -> dict[str, dict[str, Any]]:
        """Return the broker's own functions by their short names."""
        return {
            properties["FunctionName"].rsplit("-", 1)[1]: properties
            for properties in self.of("AWS::Lambda::Function").values()
            if "FunctionName" in properties
        }

    def function_id(self, name: str) -> str:
        """Return the logical id of one of the broker's functions."""
        (found,) = (
            logical_id
            for logical_id, properties in self.of("AWS::Lambda::Function").items()
            if str(properties.get("FunctionName", "")).endswith(f"-{name}")
        )
        return found

    def statements(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yield what a function's role is allowed to do."""
        (role,) = self.functions()[name]["Role"]["Fn::GetAtt"][:1]
        for policy in self.of("AWS::IAM::Policy").values():
            if {"Ref": role} in policy["Roles"]:
                yield from policy["PolicyDocument"]["Statement"]

    def allowed(self, name: str) -> dict[str, list[str]]:
        """Return the actions of a function's role, each with its resources as text."""
        found: dict[str, list[str]] = {}
        for statement in self.statements(name):
            for action in _many(statement["Action"]):
                resources = [json.dumps(r) for r in _many(statement["Resource"])]
                found.setdefault(action, []).extend(resources)
        return found

    def depends_on(self, logical_id: str) -> set[str]:
        """Return every resource that must exist before one, through others too."""
        seen: set[str] = set()
        waiting = [logical_id]
        while waiting:
            resource = self.document["Resources"].get(waiting.pop())
            for name in _references(resource) - seen:
                seen.add(name)
                waiting.append(name)
        return seen


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _references(part: Any) -> set[str]:
    if isinstance(part, list):
        return {name for item in part for name in _references(item)}
    if not isinstance(part, dict):
        return set()
    found = {name for key, item in part.items() for name in _references(item)}
    found |= set(_many(part.get("DependsOn", [])))
    if isinstance(part.get("Ref"), str):
        found.add(part["Ref"])
    if isinstance(part.get("Fn::GetAtt"), list):
        found.add(part["Fn::GetAtt"][0])
    return {name for name in found if not name.startswith("AWS::")}
