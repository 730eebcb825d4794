"""The command `lineup`. Commands parse, call one function, and return its exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from runtime_actors.cli import (
    agents,
    authors,
    background,
    bench,
    chaos,
    demos,
    doctor,
    listings,
    orders,
    people,
    policy,
    runs,
    shell,
)
from runtime_actors.cli.exits import INTERNAL, INTERRUPTED, PIPE_CLOSED, code_of
from runtime_actors.client import ClientError
from runtime_actors.rules.registration import RUNTIME_VERSION
from runtime_actors.rules.text import neutral

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

_COMMANDS: Final = (
    runs.run,
    background.start,
    background.stop,
    background.status,
    background.watch,
    agents.agent,
    listings.apps,
    listings.inventory,
    listings.ps,
    listings.calls,
    listings.call,
    listings.inbox,
    listings.outbox,
    listings.focus,
    people.answer,
    people.dismiss,
    people.front,
    people.close,
    people.say_text,
    listings.interactions,
    listings.surfaces,
    listings.artifacts,
    listings.logs,
    orders.audit,
    orders.app,
    orders.tool,
    orders.kill,
    orders.validate,
    policy.policy,
    policy.grants,
    orders.backup,
    orders.restore,
    authors.new,
    authors.dev,
    authors.conformance,
    shell.shell,
    demos.demo,
    doctor.doctor,
    bench.bench,
    chaos.chaos,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(RUNTIME_VERSION, prog_name="lineup")
def lineup() -> None:
    """Run MiniApps for AI agents: every tool call durable, every MiniApp its own process."""


for _command in _COMMANDS:
    lineup.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Nobody is shown a traceback for what they typed."""
    usual = os.umask(0o077)  # a backup, an export, a state folder: for nobody else
    try:
        return _run(arguments)
    finally:
        os.umask(usual)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # Not lineup.main(): that ends with 1 by itself when a pipe is closed.
        with lineup.make_context("lineup", list(sys.argv[1:] if arguments is None else arguments)) as context:
            code = lineup.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # What Python still holds for stdout must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except ClientError as error:
        click.echo(f"lineup: {error}", err=True)
        return code_of(error)
    except OSError as error:
        click.echo(f"lineup: {error.strerror or error}: {error.filename or ''}".rstrip(": "), err=True)
        return 1
    except Exception as error:
        # A daemon's log has the traceback; a person who typed something else is spared it.
        logger.exception("a command failed")
        click.echo(f"lineup: internal error, which is a bug: {type(error).__name__}: {neutral(str(error))}", err=True)
        return INTERNAL
    return code if isinstance(code, int) else 0
