"""The CDK app: one stack, for production and, with a context switch, for a local AWS."""
