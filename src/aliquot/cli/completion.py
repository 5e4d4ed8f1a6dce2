from __future__ import annotations

import click

_HOW = {
    "bash": 'eval "$(aliquot completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(aliquot completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "aliquot completion fish | source        # in ~/.config/fish/config.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print what makes the shell complete commands, options and names of runs.

    \b
    eval "$(aliquot completion bash)"         in ~/.bashrc
    eval "$(aliquot completion zsh)"          in ~/.zshrc, after compinit
    aliquot completion fish | source          in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(ctx.find_root().command, {}, "aliquot", "_ALIQUOT_COMPLETE").source())
    click.echo(f"# To have it always: {_HOW[shell]}")
