"""What all commands have in common: options, progress, and how a failure is told."""

import argparse
import fcntl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .layout import Failure, default_directory


def parser(about, examples):
    made = argparse.ArgumentParser(
        description=about, epilog="examples:\n" + examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--dir", type=Path, default=default_directory(), metavar="DIR",
        help="where everything of this testbed is kept (default: target/openstack of the repository)",
    )  # fmt: skip
    return made


class Progress:
    """Says what was done, and how long all has taken."""

    def __init__(self):
        self.began = time.monotonic()

    def __call__(self, text):
        print(f"{self.seconds:6.1f} s  {text}", flush=True)

    @property
    def seconds(self):
        return time.monotonic() - self.began


def each(sites, work):
    """Does something for every site at once; what it found, by site."""
    with ThreadPoolExecutor(len(sites)) as pool:
        return dict(zip([site.name for site in sites], pool.map(work, sites)))


def locked(directory):
    """Keeps a second command out that would change the same testbed; until the process ends."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failure(f"another command is at work in {directory}") from error
    return lock


def main(work):
    """Runs a command; a failure is a message and status 1."""
    try:
        sys.exit(work())
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    sys.exit(1)
