"""The list of commands."""

from collections.abc import Iterator

import click

from sepu.cli.commands import commands


def every(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every(command, (*path, name))


COMMANDS = dict(every())
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}
ON_A_DATABASE = {
    path for path, command in LEAVES.items() if "state_dir" in {option.name for option in command.params}
} - {("serve",)}

# Arguments of each command that changes something, in the order in which they run.
CHANGES = {
    "plan set": "gold --match-limit 5",
    "plan delete": "idle",
    "account create": "--plan gold --expires-at 7d",
    "account import": "{customers} --keys-file {keys_file}",
    "account delete": "cus_9010",
    "account set": "cus_8812 --name Silk --expires-at 2099-01-31T12:00:00Z",
    "account move": "cus_8812 --plan gold",
    "account suspend": "cus_8812",
    "account reactivate": "cus_8812",
    "key issue": "cus_8812 --name shop",
    "key set": "{key} --expires-at 2099-01-31T12:00:00Z",
    "key rotate": "cus_8812 --public-key {public_key}",
    "key revoke": "{key}",
    "grant add": "cus_8812 color_match 5 --reason fair",
    "credit add": "cus_8812 color_match 5 --month {month} --reason outage",
    "credit range": "--since {long_ago} --until {less_long_ago} --reason outage",
    "events retry": "--state dead",
    "prune": "",
    "account erase": "cus_8812 --yes",
}


def arguments(path: tuple[str, ...], world: dict[str, str]) -> list[str]:
    """Returns arguments with which a command works in the fixture `world`."""
    if (change := CHANGES.get(" ".join(path))) is not None:
        return change.format(**world).split()
    given = {
        "period": "2026-01",
        "name": "standard",
        "key_id": world["key"],
        "account_id": "cus_8812",
        "given": "cus_8812",
    }
    needed = {("charges", "account_id"), ("key", "list", "account_id")}
    return [
        given[each.name or ""] for each in LEAVES[path].params if each.required or (*path, each.name or "") in needed
    ]
