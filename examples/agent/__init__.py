"""An agent whose tool calls go through the broker: running a turn again is safe."""
