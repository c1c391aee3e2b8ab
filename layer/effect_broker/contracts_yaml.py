"""YAML as contract files use it: plain data, no tags, no dates, no name twice."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from effect_broker.domain.errors import ContractInvalid


class _Loader(yaml.SafeLoader):
    """Reads `2026-01-01` and `12:30` as the texts they are, and refuses aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ContractInvalid("not accepted: YAML aliases")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Name statuses by text (`429:` is a number in YAML) and keep names unique."""
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            if not isinstance(name, str):
                raise ContractInvalid("not accepted: a YAML name that is no text")
            if name in mapping:
                line = key_node.start_mark.line + 1
                raise ContractInvalid(f"line {line}: {name!r} stands twice")
            mapping[name] = self.construct_object(value_node, deep=deep)
        return mapping


_PLAIN = {"bool", "int", "float", "null"}
_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0].rsplit(":", 1)[1] in _PLAIN]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(raw: bytes) -> Any:
    """Read one YAML document.

    Raises:
        ContractInvalid: it is not YAML, or uses what contracts have no need of.
    """
    try:
        return yaml.load(raw, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise ContractInvalid(
            f"not YAML: {line}{getattr(error, 'problem', None) or 'unreadable'}"
        ) from None
