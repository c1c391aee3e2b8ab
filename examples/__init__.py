"""What shows the broker at work: nothing here is imported by the package."""
