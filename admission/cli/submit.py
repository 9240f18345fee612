"""x"""

import click


@click.command()
def submit() -> None:
    """x"""
