"""The VPC: functions reach targets through NAT, the database reaches nothing."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

AVAILABILITY_ZONES = 2


class Network(Construct):
    """Three tiers in two zones, with one NAT gateway a zone.

    A NAT gateway a zone, since a zone that fails must not stop dispatch in the other.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, retention: logs.RetentionDays
    ):
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=AVAILABILITY_ZONES,
            nat_gateways=AVAILABILITY_ZONES,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC),
                ec2.SubnetConfiguration(
                    name="functions", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS
                ),
                ec2.SubnetConfiguration(
                    name="database", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
                ),
            ],
        )
        flow_log = logs.LogGroup(self, "FlowLog", retention=retention)
        role = iam.Role(
            self,
            "FlowLogRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
        )
        self.vpc.add_flow_log(
            "Rejected",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(flow_log, role),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
        self.function_subnets = ec2.SubnetSelection(subnet_group_name="functions")
        self.database_subnets = ec2.SubnetSelection(subnet_group_name="database")
        self.function_group = ec2.SecurityGroup(
            self,
            "Functions",
            vpc=self.vpc,
            description="Functions of the broker: out to targets, AWS and the database",
        )
