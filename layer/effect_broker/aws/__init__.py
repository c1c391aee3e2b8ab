"""AWS behind the ports; the only place that imports boto3, and only when it is used."""
