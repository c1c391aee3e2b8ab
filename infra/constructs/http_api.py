"""The HTTP API: every path goes to submit."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge

# What one client may do to all the others before the broker's own checks see it.
REQUESTS_PER_SECOND = 500
REQUESTS_BURST = 1000

# No query string and no header: neither may stand in a log.
ACCESS_LOG_FIELDS = {
    "requestId": "$context.requestId",
    "at": "$context.requestTime",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "milliseconds": "$context.responseLatency",
    "error": "$context.integrationErrorMessage",
}


class HttpApi(Construct):
    """One `$default` route on one `$default` stage: no stage prefix is in the path.

    The API checks no credential: the broker's own keys do, which other surfaces share.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        target: lambda_.IFunction,
        retention: logs.RetentionDays,
    ):
        super().__init__(scope, construct_id)
        self.api = apigateway.HttpApi(
            self,
            "Api",
            api_name=name,
            create_default_stage=False,
            default_integration=integrations.HttpLambdaIntegration(
                "Submit",
                target,
                payload_format_version=apigateway.PayloadFormatVersion.VERSION_2_0,
                timeout=cdk.Duration.seconds(29),
            ),
        )
        access_log = logs.LogGroup(
            self,
            "AccessLog",
            retention=retention,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=REQUESTS_PER_SECOND, burst_limit=REQUESTS_BURST
            ),
        )
        resource = self.stage.node.default_child
        assert isinstance(resource, apigateway.CfnStage)
        resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=access_log.log_group_arn, format=json.dumps(ACCESS_LOG_FIELDS)
        )
        acknowledge(
            self.api,
            "AwsSolutions-APIG4",
            "the broker's own API keys authenticate every path",
        )
