"""The function URL that MCP clients speak to."""

from __future__ import annotations

from aws_cdk import aws_lambda as lambda_
from constructs import Construct


class McpUrl(Construct):
    """A URL of the function's alias, open to anybody who has one of the broker's keys.

    Its own auth is NONE: clients of MCP send a bearer token and sign nothing, and the
    function proves the key before it reads a body.
    """

    def __init__(self, scope: Construct, construct_id: str, *, target: lambda_.Alias):
        super().__init__(scope, construct_id)
        self.url = target.add_function_url(
            auth_type=lambda_.FunctionUrlAuthType.NONE,
            invoke_mode=lambda_.InvokeMode.BUFFERED,
        )
