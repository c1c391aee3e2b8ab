from __future__ import annotations

from tests.integration.cli.commands import Commands


def test_dispatch_is_held_and_released_by_name(commands: Commands) -> None:
    assert commands.line("dispatch", "status", "--json")["held"] is False
    assert "goes on" in commands.text("dispatch", "status")
    commands.run("dispatch", "hold", "--reason", "checking the target")
    told = commands.line("dispatch", "status", "--json")
    assert told["held"] is True
    assert told["reason"].startswith("checking the target (")
    assert "checking the target" in commands.text("dispatch", "status")
    assert commands.line("dispatch", "release") == {"held": False, "was_held": True}
    assert commands.line("dispatch", "release") == {"held": False, "was_held": False}
