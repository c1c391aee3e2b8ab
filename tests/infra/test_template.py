"""What the templates promise to callers, to the ledger and to whoever operates them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.capacity import CONNECTION_BUDGET, CONNECTIONS_PER_ENVIRONMENT
from infra.layer import PLATFORMS
from tests.infra.conftest import FUNCTIONS, Synthesize
from tests.infra.template import Template

MAPPING = "AWS::Lambda::EventSourceMapping"


@pytest.fixture(params=["production", "local"])
def either(request: pytest.FixtureRequest) -> Template:
    """Each of the two templates: what holds for one holds for both."""
    template: Template = request.getfixturevalue(request.param)
    return template


def test_lambda_retries_no_asynchronous_event_on_any_qualifier(either: Template) -> None:
    configured = {
        (json.dumps(p["FunctionName"]), json.dumps(_name_of(p["Qualifier"], either)))
        for p in either.of("AWS::Lambda::EventInvokeConfig").values()
        if p["MaximumRetryAttempts"] == 0
    }
    wanted = {
        (json.dumps({"Ref": either.function_id(name)}), json.dumps("$LATEST"))
        for name in FUNCTIONS
    } | {
        (json.dumps(p["FunctionName"]), json.dumps(p["Name"]))
        for p in either.of("AWS::Lambda::Alias").values()
    }
    assert configured == wanted


def test_messages_stay_hidden_longer_than_any_batch_is_worked_on(
    either: Template,
) -> None:
    for mapping in either.of(MAPPING).values():
        queue = either.of("AWS::SQS::Queue")[_queue(mapping)]
        function = either.functions()[queue["QueueName"].rsplit("-", 1)[1]]
        window = mapping.get("MaximumBatchingWindowInSeconds", 0)
        assert queue["VisibilityTimeout"] >= window + 6 * function["Timeout"]


def test_a_nudge_that_keeps_failing_ends_in_dead_letters(either: Template) -> None:
    queues = either.of("AWS::SQS::Queue")
    for mapping in either.of(MAPPING).values():
        redrive = queues[_queue(mapping)]["RedrivePolicy"]
        (dead_letters,) = redrive["deadLetterTargetArn"]["Fn::GetAtt"][:1]
        assert redrive["maxReceiveCount"] == 5
        assert queues[dead_letters]["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_one_bad_nudge_does_not_return_its_batch(either: Template) -> None:
    mappings = either.of(MAPPING)
    assert len(mappings) == 2
    for mapping in mappings.values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_queue_leaves_an_environment_to_the_sweep(either: Template) -> None:
    for mapping in either.of(MAPPING).values():
        name = either.of("AWS::SQS::Queue")[_queue(mapping)]["QueueName"].rsplit("-", 1)[
            1
        ]
        most = mapping["ScalingConfig"]["MaximumConcurrency"]
        assert 2 <= most < either.functions()[name]["ReservedConcurrentExecutions"]


def test_all_environments_together_stay_inside_the_connection_budget(
    production: Template,
) -> None:
    functions = production.functions()
    assert set(functions) == set(FUNCTIONS)
    environments = sum(f["ReservedConcurrentExecutions"] for f in functions.values())
    assert environments * CONNECTIONS_PER_ENVIRONMENT <= CONNECTION_BUDGET


def test_timeouts_are_what_the_parts_around_the_functions_allow(either: Template) -> None:
    timeouts = {name: f["Timeout"] for name, f in either.functions().items()}
    assert timeouts == {
        "submit": 29,
        "mcp": 29,
        "dispatch": 60,
        "reconcile": 60,
        "migrate": 900,
    }


def test_only_dispatch_and_reconcile_read_target_secrets(either: Template) -> None:
    readers = {
        name
        for name in FUNCTIONS
        if any("targets/" in r for r in _secrets_read(either, name))
    }
    assert readers == {"dispatch", "reconcile"}


def test_no_function_reads_secrets_by_a_wildcard_but_targets_by_their_prefix(
    either: Template,
) -> None:
    for name in FUNCTIONS:
        for resource in _secrets_read(either, name):
            assert "*" not in resource or f"{_prefix(either)}targets/*" in resource


def test_every_action_is_granted_on_named_resources(either: Template) -> None:
    for name in FUNCTIONS:
        for action, resources in either.allowed(name).items():
            assert "*" not in action
            # A trace and a task token belong to no resource that could be named.
            if not action.startswith(("xray:", "states:SendTask")):
                assert '"*"' not in resources, (name, action)


def test_a_function_decrypts_targets_only_through_secrets_manager(
    production: Template,
) -> None:
    for name in ("dispatch", "reconcile"):
        for statement in production.statements(name):
            if "kms:Decrypt" in str(statement["Action"]):
                assert "kms:ViaService" in json.dumps(statement.get("Condition", {}))


def test_only_the_broker_may_consume_and_nudge_its_queues(either: Template) -> None:
    consumers = {n for n in FUNCTIONS if "sqs:ReceiveMessage" in either.allowed(n)}
    senders = {n for n in FUNCTIONS if "sqs:SendMessage" in either.allowed(n)}
    assert consumers == {"dispatch", "reconcile"}
    assert senders == {"submit", "mcp", "dispatch", "reconcile"}


def test_traffic_reaches_new_code_only_after_the_migration(either: Template) -> None:
    (trigger,) = either.of("Custom::Trigger")
    gated = [*either.of("AWS::Lambda::Alias"), *either.of(MAPPING)]
    assert len(gated) >= 6
    for logical_id in gated:
        assert trigger in either.depends_on(logical_id), logical_id


def test_the_migration_waits_for_a_database_that_answers(production: Template) -> None:
    (trigger,) = production.of("Custom::Trigger")
    before = production.depends_on(trigger)
    assert set(production.of("AWS::RDS::DBInstance")) <= before
    assert set(production.of("AWS::EC2::NatGateway")) <= before
    assert set(production.of("AWS::EC2::SecurityGroupIngress")) <= before


def test_the_gateway_the_queues_and_the_sweeps_call_the_live_alias(
    either: Template,
) -> None:
    live = {i for i, p in either.of("AWS::Lambda::Alias").items() if p["Name"] == "live"}
    (integration,) = either.of("AWS::ApiGatewayV2::Integration").values()
    called = [integration["IntegrationUri"]]
    called += [p["FunctionName"] for p in either.of(MAPPING).values()]
    called += [p["Target"]["Arn"] for p in either.of("AWS::Scheduler::Schedule").values()]
    assert len(called) == 5
    for target in called:
        assert any(alias in json.dumps(target) for alias in live)


def test_mcp_clients_reach_one_url_of_the_live_alias_and_prove_their_own_key(
    either: Template,
) -> None:
    (url,) = either.of("AWS::Lambda::Url").values()
    assert url["AuthType"] == "NONE"
    assert url["Qualifier"] == "live"
    assert url["TargetFunctionArn"]


def test_each_tenant_is_bound_to_an_alias_of_submit(production: Template) -> None:
    aliases = {
        p["Name"]: p["FunctionName"]["Ref"]
        for p in production.of("AWS::Lambda::Alias").values()
        if p["Name"].startswith("tenant-")
    }
    submit = production.function_id("submit")
    assert aliases == {"tenant-acme": submit, "tenant-demo": submit}


def test_each_tenants_policy_opens_its_own_alias_and_nothing_else(
    production: Template,
) -> None:
    """An agent's role that submits for one tenant reaches no other and no function."""
    policies = production.of("AWS::IAM::ManagedPolicy").values()
    opened = {}
    for policy in policies:
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Action"] == "lambda:InvokeFunction"
        alias = production.resource(statement["Resource"]["Ref"])
        opened[policy["ManagedPolicyName"]] = alias["Properties"]["Name"]
        assert not policy.get("Roles")
    prefix = "effect-broker-production-submit-as-"
    assert opened == {f"{prefix}{slug}": f"tenant-{slug}" for slug in ("acme", "demo")}


def test_only_workers_may_answer_task_tokens(either: Template) -> None:
    answers = {
        name
        for name in FUNCTIONS
        if "states:SendTaskSuccess" in json.dumps(either.allowed(name))
    }
    assert answers == {"dispatch", "reconcile"}


def test_limits_and_origins_reach_the_function_that_serves(
    synthesize: Synthesize, layer: Path, tmp_path: Path
) -> None:
    context = {"rateLimit": "20:100", "corsOrigins": "https://console.example"}
    made = synthesize(tmp_path, layer=str(layer), **context)
    assert made.returncode == 0, made.stderr
    template = Template(json.loads(next(tmp_path.glob("*.template.json")).read_text()))
    told = template.functions()["submit"]["Environment"]["Variables"]
    assert told["EFFECT_BROKER_RATE_LIMIT"] == "20:100"
    assert told["EFFECT_BROKER_CORS_ORIGINS"] == "https://console.example"


def test_both_workers_are_swept_every_minute_without_retries(either: Template) -> None:
    schedules = either.of("AWS::Scheduler::Schedule").values()
    assert len(schedules) == 2
    for schedule in schedules:
        assert schedule["ScheduleExpression"] == "rate(1 minute)"
        assert schedule["Target"]["Input"] == '{"operation":"sweep"}'
        assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


def test_functions_run_on_the_platform_that_the_layer_is_built_for(
    production: Template,
) -> None:
    platform = PLATFORMS["arm64"]
    (layer,) = production.of("AWS::Lambda::LayerVersion")
    for function in production.functions().values():
        assert function["Architectures"] == [platform.architecture]
        assert function["Runtime"] == f"python{platform.python}"
        assert function["Layers"] == [{"Ref": layer}]
        assert function["Handler"] == "handler.handler"
    properties = production.of("AWS::Lambda::LayerVersion")[layer]
    assert properties["CompatibleArchitectures"] == [platform.architecture]


def test_an_x86_64_deployment_says_so_on_functions_and_layer(
    synthesize: Synthesize, layer: Path, tmp_path: Path
) -> None:
    context = {"local": "true", "databaseUrl": "postgresql://h/d", "layer": str(layer)}
    out = tmp_path / "out"
    made = synthesize(out, architecture="x86_64", **context)
    assert made.returncode == 0, made.stderr[-2000:]
    template = Template(json.loads((out / "Broker.template.json").read_text()))
    (shipped,) = template.of("AWS::Lambda::LayerVersion").values()
    architectures = [f["Architectures"] for f in template.functions().values()]
    assert architectures == [["x86_64"]] * len(FUNCTIONS)
    assert shipped["CompatibleArchitectures"] == ["x86_64"]


def test_no_secret_value_stands_in_a_template(production: Template) -> None:
    for secret in production.of("AWS::SecretsManager::Secret").values():
        assert "SecretString" not in secret
    (keyring,) = _keyrings(production)
    assert "GenerateSecretString" not in keyring


def test_only_migrate_comes_into_the_database_as_its_owner(production: Template) -> None:
    """The others' role can neither change an immutable row nor the schema."""
    owner, application = (
        f"effect-broker/production/database{suffix}" for suffix in ("", "-app")
    )
    for name, function in production.functions().items():
        told = function["Environment"]["Variables"]
        reads = {_secret_name(production, r) for r in _secrets_read(production, name)}
        if name == "migrate":
            assert told["EFFECT_BROKER_DATABASE_SECRET"] == owner
            assert told["EFFECT_BROKER_APP_DATABASE_SECRET"] == application
            assert {owner, application} <= reads
        else:
            assert told["EFFECT_BROKER_DATABASE_SECRET"] == application
            assert "EFFECT_BROKER_APP_DATABASE_SECRET" not in told
            assert application in reads
            assert owner not in reads


def test_proxy_lets_both_roles_in(production: Template) -> None:
    (proxy,) = production.of("AWS::RDS::DBProxy").values()
    assert len(proxy["Auth"]) == 2


def test_the_keyring_and_the_ledger_outlive_the_stack(production: Template) -> None:
    kept = {
        resource["Properties"].get("Name", resource["Type"]): resource["DeletionPolicy"]
        for resource in production.document["Resources"].values()
        if resource["Type"]
        in ("AWS::SecretsManager::Secret", "AWS::KMS::Key", "AWS::RDS::DBCluster")
    }
    assert kept["effect-broker/production/keyring"] == "Retain"
    assert kept["AWS::KMS::Key"] == "Retain"
    assert kept["AWS::RDS::DBCluster"] == "Snapshot"


def test_the_database_is_encrypted_private_and_a_supported_major(
    production: Template,
) -> None:
    (cluster,) = production.of("AWS::RDS::DBCluster").values()
    assert cluster["StorageEncrypted"] is True
    assert cluster["DeletionProtection"] is True
    assert int(cluster["EngineVersion"].split(".")[0]) >= 16
    for instance in production.of("AWS::RDS::DBInstance").values():
        assert not instance.get("PubliclyAccessible", False)


def test_a_proxy_replaces_the_host_that_the_secret_names(production: Template) -> None:
    (proxy,) = production.of("AWS::RDS::DBProxy")
    for function in production.functions().values():
        host = function["Environment"]["Variables"]["EFFECT_BROKER_DATABASE_HOST"]
        assert host == {"Fn::GetAtt": [proxy, "Endpoint"]}


def test_the_local_template_has_nothing_that_a_local_aws_lacks(local: Template) -> None:
    kinds = {resource["Type"] for resource in local.document["Resources"].values()}
    assert not {k for k in kinds if k.startswith(("AWS::RDS", "AWS::EC2"))}
    assert "AWS::Lambda::LayerVersion" not in kinds
    for function in local.functions().values():
        variables = function["Environment"]["Variables"]
        assert variables["EFFECT_BROKER_DATABASE_URL"].startswith("postgresql://")
        assert variables["EFFECT_BROKER_ENVIRONMENT"] == "local"


def test_production_rings_for_what_no_caller_would_notice(production: Template) -> None:
    alarms = {
        p["AlarmName"].removeprefix("effect-broker-production-"): p
        for p in production.of("AWS::CloudWatch::Alarm").values()
    }
    assert {
        "oldest-unknown",
        "dispatch-dead-letters",
        "reconcile-dead-letters",
        "migrate-errors",
        "dispatch-sweep-stopped",
        "reconcile-sweep-stopped",
        *(f"{name}-{what}" for name in FUNCTIONS for what in ("errors", "throttles")),
    } <= set(alarms)
    assert all(alarm["AlarmActions"] for alarm in alarms.values())
    assert alarms["dispatch-sweep-stopped"]["TreatMissingData"] == "breaching"


def test_logs_end_after_a_while(either: Template) -> None:
    groups = either.of("AWS::Logs::LogGroup").values()
    assert len(groups) >= 5
    assert all(group["RetentionInDays"] for group in groups)


def test_access_logs_hold_neither_queries_nor_headers(either: Template) -> None:
    (stage,) = either.of("AWS::ApiGatewayV2::Stage").values()
    assert stage["StageName"] == "$default"
    fields = json.loads(stage["AccessLogSettings"]["Format"])
    assert "$context.path" in fields.values()
    assert not [
        v for v in fields.values() if "query" in v.lower() or "header" in v.lower()
    ]


def test_tracing_is_off_until_asked_for(either: Template) -> None:
    for function in either.functions().values():
        assert "TracingConfig" not in function


def _name_of(qualifier: object, template: Template) -> object:
    """A qualifier is cut out of its alias's ARN; the alias itself has the name."""
    if isinstance(qualifier, str):
        return qualifier
    for logical_id, alias in template.of("AWS::Lambda::Alias").items():
        if logical_id in json.dumps(qualifier):
            return alias["Name"]
    return qualifier


def _queue(mapping: dict[str, dict[str, list[str]]]) -> str:
    return mapping["EventSourceArn"]["Fn::GetAtt"][0]


def _secrets_read(template: Template, name: str) -> list[str]:
    return template.allowed(name).get("secretsmanager:GetSecretValue", [])


def _prefix(template: Template) -> str:
    (keyring,) = _keyrings(template)
    return str(keyring["Name"]).removesuffix("keyring")


def _keyrings(template: Template) -> list[dict[str, object]]:
    secrets = template.of("AWS::SecretsManager::Secret").values()
    return [s for s in secrets if str(s.get("Name", "")).endswith("/keyring")]


def _secret_name(template: Template, resource: str) -> str:
    """Return the name of the secret that a statement names; an attachment is the same."""
    logical_id = json.loads(resource).get("Ref")
    found = template.resource(logical_id) if logical_id else {}
    properties = found.get("Properties", {})
    if "SecretId" in properties:
        return _secret_name(template, json.dumps(properties["SecretId"]))
    return str(properties.get("Name", resource))
