"""`python -m effect_broker`: the command line where its script is not installed."""

from effect_broker.surfaces.cli.app import main

main()
