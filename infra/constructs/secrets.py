"""Secrets: the key that encrypts them, the keyring, and the targets' credentials."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.acknowledge import acknowledge


class BrokerSecrets(Construct):
    """The keyring's place and the prefix under which targets' secrets stand.

    The keyring is created without a value: keys that CloudFormation makes stand in its
    reach for ever, and a template that changed would replace them, which loses every
    argument and downstream key that they protect. `python -m infra keyring` makes one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str,
        target_prefix: str,
        removal_policy: cdk.RemovalPolicy,
    ):
        super().__init__(scope, construct_id)
        self.target_prefix = target_prefix
        self.keyring_name = f"{prefix}keyring"
        self.key = kms.Key(
            self,
            "Key",
            description="effect-broker: ledger storage, keyring and credentials",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        self.keyring = secretsmanager.Secret(
            self,
            "Keyring",
            secret_name=self.keyring_name,
            description="JSON: data_keys, active_data_key, hmac_keys",
            encryption_key=self.key,
            removal_policy=removal_policy,
        )
        resource = self.keyring.node.default_child
        assert isinstance(resource, secretsmanager.CfnSecret)
        resource.generate_secret_string = None
        acknowledge(
            self.keyring,
            "AwsSolutions-SMG4",
            "a key that rows are encrypted under is retired by re-encryption",
        )

    def grant_keyring(self, function: lambda_.IFunction) -> None:
        """Let one function read the keyring."""
        self.keyring.grant_read(function)

    def grant_targets(self, role: iam.Role) -> None:
        """Let a function's role read the targets' credentials, and decrypt only them."""
        stack = cdk.Stack.of(self)
        secrets = stack.format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{self.target_prefix}*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[secrets]
            )
        )
        via = f"secretsmanager.{stack.region}.amazonaws.com"
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["kms:Decrypt"],
                resources=[self.key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": via}},
            )
        )
        acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:secretsmanager:<AWS::Region>"
            f":<AWS::AccountId>:secret:{self.target_prefix}*]",
            "targets are added without a deployment, each under this prefix",
        )
