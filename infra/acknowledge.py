"""Findings of cdk-nag that were read and are right as they are, each with its reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept one rule's finding on one construct and what is under it."""
    cdk.Validations.of(construct).acknowledge(
        cdk.Acknowledgment(id=f"{PACK}::{rule}", reason=reason)
    )
