"""The published vectors, read by this code and by another language."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from effect_broker.domain.canonical import canonical, parse_canonical, parse_strict
from effect_broker.domain.contract import KeyFormat
from effect_broker.domain.errors import InvalidJson
from effect_broker.domain.identity import render_key, request_hash

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    resources.files("effect_broker").joinpath("vectors.json").read_bytes()
)
NODE = Path(sys.executable).parent / "node"

IN_ANOTHER_LANGUAGE = """
const crypto = require("node:crypto");
const sorted = (value) =>
  Array.isArray(value) ? value.map(sorted)
  : value !== null && typeof value === "object"
    ? Object.keys(value).sort().map((name) => [name, sorted(value[name])])
    : value;
const write = (value, node) =>
  node !== null && typeof node === "object" && !Array.isArray(node)
    ? "{" + value.map(([n, v]) => JSON.stringify(n) + ":" + write(v, node[n])) + "}"
    : Array.isArray(node)
      ? "[" + value.map((v, i) => write(v, node[i])) + "]"
      : JSON.stringify(value);
const canonical = (text) => {
  const read = JSON.parse(text);
  return write(sorted(read), read);
};
const sha256 = (text) => crypto.createHash("sha256").update(text, "utf8").digest("hex");
const given = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const answer = {
  canonical: given.canonical.map((v) => canonical(v.input)),
  canonical_sha256: given.canonical.map((v) => sha256(canonical(v.input))),
  request_hash: given.request_hash.map((v) => sha256(canonical(JSON.stringify({
    tool: v.tool, arguments: JSON.parse(v.arguments),
    contract_name: v.contract_name, contract_version: v.contract_version,
  })))),
  downstream_key: given.downstream_key.map((v) => {
    const message = [v.tenant_id, v.operation_key];
    if (v.generation > 1) message.push(String(v.generation));
    return crypto.createHmac("sha256", Buffer.from(v.hmac_key_base16, "hex"))
      .update(message.join("\\0"), "utf8").digest("base64url");
  }),
};
process.stdout.write(JSON.stringify(answer));
"""


def _named(vectors: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def _raw(vector: dict[str, Any]) -> bytes:
    if "input" in vector:
        return str(vector["input"]).encode()
    return bytes.fromhex(vector["input_base16"])


@pytest.mark.parametrize("vector", _named(VECTORS["canonical"]))
def test_canonical_vector_holds(vector: dict[str, Any]) -> None:
    written = canonical(parse_strict(_raw(vector)))
    assert written.decode() == vector["canonical"]
    assert hashlib.sha256(written).hexdigest() == vector["sha256"]
    assert canonical(parse_canonical(written)) == written


@pytest.mark.parametrize("vector", _named(VECTORS["refused"]))
def test_refused_vector_is_refused_without_an_echo(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidJson) as refused:
        parse_strict(_raw(vector))
    message = refused.value.message
    message.encode("ascii")
    assert "amount" not in message
    assert "900719925474" not in message


@pytest.mark.parametrize("vector", VECTORS["request_hash"])
def test_request_hash_vector_holds(vector: dict[str, Any]) -> None:
    arguments: Any = parse_strict(vector["arguments"].encode())
    digest = request_hash(
        vector["tool"], arguments, vector["contract_name"], vector["contract_version"]
    )
    assert digest.hex() == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["downstream_key"])
def test_downstream_key_vector_holds(vector: dict[str, Any]) -> None:
    message = f"{UUID(vector['tenant_id'])}\0{vector['operation_key']}"
    if vector["generation"] > 1:
        message += f"\0{vector['generation']}"
    key = bytes.fromhex(vector["hmac_key_base16"])
    digest = hmac.digest(key, message.encode(), "sha256")
    for key_format in KeyFormat:
        assert render_key(digest, key_format) == vector[key_format.value]


def test_another_language_reads_the_vectors_alike() -> None:
    if not NODE.exists():
        pytest.skip("no node beside this Python")
    ran = subprocess.run(
        [NODE, "-e", IN_ANOTHER_LANGUAGE],
        input=json.dumps(VECTORS).encode(),
        capture_output=True,
        check=True,
    )
    answer = json.loads(ran.stdout)
    assert answer == {
        "canonical": [vector["canonical"] for vector in VECTORS["canonical"]],
        "canonical_sha256": [vector["sha256"] for vector in VECTORS["canonical"]],
        "request_hash": [vector["sha256"] for vector in VECTORS["request_hash"]],
        "downstream_key": [vector["base64url"] for vector in VECTORS["downstream_key"]],
    }
