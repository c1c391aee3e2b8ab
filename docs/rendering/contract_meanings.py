"""What each field of a contract means, in one sentence; the renderer refuses a gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "EffectContract": {
        "tool": "What callers name.",
        "name": "The contract's own name; part of the request hash.",
        "version": "Part of the request hash; a published version never changes.",
        "safety": "What the target offers, and so what a lost answer permits.",
        "adapter": "How the target is spoken to; `package.module:Adapter` is your own.",
        "description": "Shown to callers beside the schema.",
        "attempt_timeout": "How long one attempt may put bytes on the wire and wait for "
        "its answer, in total. With the clock margin of 1 s it must fit into the lease.",
        "lease": "How long a worker holds an effect before it counts as lost.",
        "retry_limit": "How many rejections that prove non-commit may be followed by "
        "another attempt.",
        "backoff": "Waits between repetitions.",
        "submit_deadline": "How long attempts that were not sent or not executed may go "
        "on before the effect ends.",
        "key_retention": "How long the target honours a key, counted from the first "
        "possible send.",
        "short_horizon": "Accepts a `key_retention` that is shorter than the contract's "
        "own recovery.",
        "settlement_bound": "How long a request may still be on its way, or wait in the "
        "target's queue, after the sender has stopped. Required unless transactional.",
        "probe_gap": "How much later a second negative lookup must follow the first "
        "before absence is believed.",
        "redispatch_limit": "How often an effect may be sent again after ambiguity.",
        "key_records": "What the target keeps under a key: every answer, the commit "
        "itself, or successful answers only.",
        "key_generations": "How many keys one effect may use; a new one only after "
        "proof that no attempt under the old one committed.",
        "requeue_after_operator_proof": "Unsafe contracts only: lets an operator's "
        "`not_committed` send the effect again.",
        "unknown_alert_after": "Age of an unknown outcome that should alarm somebody.",
        "unknown_review_after": "Age of an unknown outcome at which recovery stops and a "
        "person decides. Not for unsafe effects, which wait for a person anyway.",
        "non_intent_fields": "Top-level arguments that are left out of the request hash.",
        "key_format": "How the downstream key is written: 43, 64 or 36 characters.",
        "key_max_length": "The longest key the target takes; a format that does not fit "
        "is refused when the contract loads, and no key is ever cut.",
        "key_quoted": "Sends the key in double quotes, as a structured header field.",
        "arguments": "JSON Schema 2020-12 of the arguments; `type` is `object`. Its"
        " references are JSON pointers inside it, such as `#/$defs/money`.",
        "output": "JSON Schema of the target's answer. A mismatch flags the receipt; it "
        "never fails the effect.",
        "redact": "What a preview may show.",
        "http": 'The request, for `adapter = "http"`.',
        "probe": "The lookup. Required for reconcilable contracts.",
        "listing": "How the target's own objects over a window are listed.",
        "sandbox": "Where the contract may be tried out.",
        "sql": 'The mutation, for `adapter = "sql"`.',
        "simulated": 'The script, for `adapter = "simulated"`.',
        "stripe": 'The call, for `adapter = "stripe"`.',
        "mcp": 'The upstream tool, for `adapter = "mcp"`.',
        "options": "Whatever an adapter of your own reads; refused for built-in ones.",
    },
    "Backoff": {
        "initial": "The first wait.",
        "factor": "How much longer each wait is than the one before.",
        "max": "The longest wait.",
        "jitter": "How far a wait may lie from that, as a share of it. Drawn from the "
        "effect's id, so that the same history waits the same time.",
    },
    "Redaction": {
        "show": "Pointers into the arguments whose values a preview shows; all else is "
        "masked.",
    },
    "HttpTerms": {
        "method": "The method of the one mutating request.",
        "url": "Arguments fill path segments and query values, percent-encoded, never "
        "the host. With `base_url` it is a path.",
        "base_url": "The target's address, or the secret that holds it, so that one "
        "contract serves a test and a live target.",
        "key_header": "The header that carries the downstream key.",
        "key_body": "The place in the body that carries the downstream key.",
        "headers": "Further headers. Credentials must be secret references.",
        "body": "How the arguments are sent.",
        "external_id": "Where the target's own id stands in its answer.",
        "account": "Part of the target scope, with base URL, mode and credentials.",
        "rotates": "Says that the credential may change within the same account, so that "
        "its value is no part of the scope.",
        "mode": "Part of the target scope, for example `test` or `live`.",
        "target_enforces_deadline": "The header that carries the send deadline to a "
        "target that refuses requests which arrive later.",
        "allow_private": "Allows private addresses. Link-local and metadata addresses "
        "are refused always.",
        "meaning": "What the target's answers mean.",
    },
    "MeaningTable": {
        "code": "Where the code stands in the answer, for entries such as `409/in_use`.",
    },
    "ProbeTerms": {
        "method": "The method of the lookup.",
        "url": "Must hold `{downstream_key}` with the http adapter.",
        "headers": "Headers of the lookup; those of the request unless given.",
        "consistency": "`strong`: absence can be believed once everything has settled. "
        "`eventual`: the lookup proves presence only.",
        "found": "Where the object stands in a 2xx answer, or in a lookup tool's result; "
        "nothing there means absent.",
        "external_id": "Where the target's own id stands in the answer.",
        "match": "Where the answer repeats the downstream key. Another value there is no "
        "answer about this effect.",
        "absent": "Statuses that mean absent.",
        "timeout": "How long a lookup may take; `attempt_timeout` unless given.",
    },
    "ListingTerms": {
        "url": "Filled with `{created_after}`, `{created_before}` and `{cursor}`.",
        "headers": "Headers of the listing; those of the request unless given.",
        "items": "Where the items stand in the answer.",
        "external_id": "Where the target's own id stands in an item.",
        "key": "Where the downstream key stands in an item.",
        "time": "How the window's instants are written.",
        "next_cursor": "Where the next page's cursor stands in the answer.",
        "timeout": "How long one page may take.",
    },
    "SandboxTerms": {
        "base_url": "The sandbox's address, or the secret that holds it.",
        "account": "The sandbox's account.",
        "mode": "The sandbox's mode.",
        "headers": "Headers for the sandbox.",
        "arguments": "Arguments that the sandbox accepts.",
        "other_arguments": "Arguments that differ in payload, to try drift.",
        "rejected_arguments": "Arguments that the target refuses.",
    },
    "SqlTerms": {
        "statement": "One SQL statement with `%(name)s` parameters: the top-level "
        "arguments, `effect_id`, `tenant_id`, `operation_key`, `downstream_key`.",
        "function": "A function `package.module:name` instead of a statement.",
        "external_id": "The returned column that holds the external id.",
    },
    "SimulatedTerms": {
        "script": "What each request does in turn.",
        "latency": "How long each request takes.",
    },
    "StripeTerms": {
        "api_key": "The secret that holds the API key.",
        "operation": "A call of the official SDK, for example `payment_intents.create`.",
        "api_base": "Another address than Stripe's own.",
        "account": "A connected account; part of the target scope.",
        "mode": "Part of the target scope.",
    },
    "McpTerms": {
        "url": "The upstream server's address, or the secret that holds it.",
        "tool": "The upstream tool's name.",
        "headers": "Headers of the call.",
        "account": "Part of the target scope.",
        "mode": "Part of the target scope.",
        "allow_private": "Allows private addresses.",
        "external_id": "Where the target's own id stands in the result.",
        "key_argument": "The place in the arguments that carries the downstream key. "
        "Required for idempotent and reconcilable contracts, excluded for unsafe ones.",
        "meaning": "What errors of the tool and of its server mean.",
        "lookup": "The tool that finds an effect by its key; `[contracts.probe]` says "
        "what its answer is worth.",
    },
    "McpMeaningTable": {
        "code": "Where the code stands in an error result, for entries such as "
        "`error/declined`.",
    },
    "McpLookup": {
        "tool": "The upstream tool's name: another one, which changes nothing.",
        "key_argument": "The place in its arguments that carries the downstream key.",
        "arguments": "Further arguments, the same for every lookup.",
    },
    "SecretRef": {
        "secret": "The secret's name.",
        "prefix": "Text before the value, for example `Bearer `.",
    },
}
