"""The core of the crash matrix on the deployed stack: the Lambda workers themselves die.

Their code has no failpoints: a worker is disturbed while its target, or the database,
keeps it waiting. Recovery is left to the schedules and the queues of the deployment.
"""
