"""Target secrets from AWS Secrets Manager."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from effect_broker.domain.errors import SecretNotFound

if TYPE_CHECKING:
    from types_boto3_secretsmanager import SecretsManagerClient


class SecretsManagerSecrets:
    """Reads the secret `prefix + name`; its whole text is the value."""

    def __init__(
        self, prefix: str = "", *, client: SecretsManagerClient | None = None
    ) -> None:
        self._prefix = prefix
        self._client = client
        self._connecting = threading.Lock()

    async def secret(self, name: str) -> str:
        """Return the secret's current version.

        Raises:
            SecretNotFound: there is none, it is binary or empty, or it cannot be read;
                the message names the reference and AWS's error code.
        """
        return await asyncio.to_thread(self.read, name)

    def read(self, name: str) -> str:
        """Return the secret's current version; for composition roots, outside the loop.

        Raises:
            SecretNotFound: as `secret` says.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._connected().get_secret_value(SecretId=self._prefix + name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown")
            raise SecretNotFound(f"The secret {name} cannot be read ({code}).") from None
        except BotoCoreError as error:
            raise SecretNotFound(
                f"The secret {name} cannot be read ({type(error).__name__})."
            ) from None
        value = answer.get("SecretString")
        if not value:
            raise SecretNotFound(f"The secret {name} holds no text.")
        return value

    def _connected(self) -> SecretsManagerClient:
        with self._connecting:
            if self._client is None:
                import boto3
                from botocore.config import Config

                self._client = boto3.client(
                    "secretsmanager",
                    config=Config(
                        connect_timeout=2,
                        read_timeout=5,
                        retries={"total_max_attempts": 3, "mode": "standard"},
                    ),
                )
            return self._client
