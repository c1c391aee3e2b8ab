"""What a deployment needs before a first effect: secrets, a tenant, keys, contracts."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError

from infra.keyring import new_keyring
from infra.progress import StepFailed
from localstack.deploy import DEMO_TENANT, Deployment
from localstack.platform import Addresses
from localstack.state import State
from localstack.workspace import CREDENTIALS, REGION, Workspace

API_KEY = "EFFECT_BROKER_API_KEY"
OPERATOR_KEY = "EFFECT_BROKER_OPERATOR_KEY"
SCOPES = {
    API_KEY: ["submit", "read"],
    OPERATOR_KEY: ["submit", "read", "operate"],
}

# Longer than the migrate function may run: a client that gives up would invoke it again.
INVOKE_SECONDS_MAX = 930
ANSWER_SECONDS_MAX = 30


class Seeder:
    """Puts the demo's data into a deployment; all of it may be put there again."""

    def __init__(
        self,
        workspace: Workspace,
        state: State,
        addresses: Addresses,
        deployment: Deployment,
    ):
        self._workspace = workspace
        self._state = state
        self._addresses = addresses
        self._outputs = deployment.outputs
        self._api = deployment.api_url(addresses.aws)
        options = ClientConfig(
            read_timeout=INVOKE_SECONDS_MAX, retries={"total_max_attempts": 1}
        )
        session = boto3.Session(
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )
        self._lambda: Any = session.client(
            "lambda", endpoint_url=addresses.aws, config=options
        )
        self._secrets: Any = session.client("secretsmanager", endpoint_url=addresses.aws)

    def secrets(self) -> None:
        """Put the keyring and the demo target's address where the functions look."""
        self._put_secret(self._outputs["KeyringSecret"], self._keyring(), exists=True)
        prefix = self._outputs["TargetSecretsPrefix"]
        self._put_secret(f"{prefix}demo/base_url", self._addresses.target_inside)

    def tenant(self) -> None:
        """Make the demo tenant unless it is there."""
        self._migrate(operation="create_tenant", slug=DEMO_TENANT, name="Demo")

    def contracts(self) -> None:
        """Publish the example contracts; one that is published already stays."""
        self._migrate(operation="publish_contracts")

    def keys(self) -> None:
        """Make the demo tenant's keys unless those on record still open the API."""
        for name, scopes in SCOPES.items():
            kept = self._state.keys.get(name)
            if kept and self._opens(kept):
                continue
            made = self._migrate(
                operation="create_key", tenant=DEMO_TENANT, scopes=scopes
            )
            self._state.keys[name] = made["key"]
            self._state.save(self._workspace.state_file)

    def _keyring(self) -> str:
        """The keyring is kept as long as the database whose rows it opens."""
        path = self._workspace.keyring_file
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(new_keyring() + "\n")
        return path.read_text()

    def _put_secret(self, name: str, value: str, *, exists: bool = False) -> None:
        try:
            if not exists:
                try:
                    self._secrets.create_secret(Name=name, SecretString=value)
                    return
                except self._secrets.exceptions.ResourceExistsException:
                    pass
            self._secrets.put_secret_value(SecretId=name, SecretString=value)
        except (BotoCoreError, ClientError) as error:
            raise StepFailed(f"secret {name}: {error}") from error

    def _migrate(self, **event: object) -> Mapping[str, Any]:
        """Invoke the migrate function and return its answer.

        Raises:
            StepFailed: the function raised; its own words.
        """
        name = self._outputs["MigrateFunction"]
        try:
            answer = self._lambda.invoke(FunctionName=name, Payload=json.dumps(event))
            said = json.loads(answer["Payload"].read() or b"null")
        except (BotoCoreError, ClientError, ValueError) as error:
            raise StepFailed(f"{name}: {error}") from error
        if "FunctionError" in answer:
            why = said.get("errorMessage") if isinstance(said, dict) else said
            raise StepFailed(
                f"{event['operation']}: {why} (read on: make logs ARGS=migrate)",
                log=self._workspace.log("emulator"),
            )
        return said if isinstance(said, dict) else {}

    def _opens(self, key: str) -> bool:
        url = f"{self._api}/v1/tools"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX):
                return True
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                return False
            raise StepFailed(f"GET /v1/tools: {error.code}") from error
        except OSError as error:
            raise StepFailed(f"GET /v1/tools: {error}") from error
