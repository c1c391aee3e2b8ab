"""The broker as an MCP server: a tool for each contract, and tools that read."""
