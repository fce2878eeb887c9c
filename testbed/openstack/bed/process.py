"""Processes that outlive the command that started them: each has a log and a file with its id.

Only what has such a file is ever ended, and only if the process with that id is still the one that was started:
ids are used again, so the file also has the time at which the process began.
"""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .layout import Failure

READY_SECONDS = 180
STOP_SECONDS = 30
TAIL_LINES = 25

# Debian's own programs, and Debian's Python before any other: its OpenStack is not in a virtual environment.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON = "/usr/bin/python3"


def environment(bed, extra=None):
    """What programs see: nothing of the caller's that could change what Python, OpenStack or a proxy does."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OS_", "PYTHON", "PIP_", "VIRTUAL_ENV", "RABBITMQ_")) and not name.lower().endswith("_proxy")
    }
    own = {"PATH": SYSTEM_PATH, "HOME": str(bed.directory / "home"), "TMPDIR": str(bed.directory / "tmp")}
    return kept | own | {"LC_ALL": "C.UTF-8"} | (extra or {})


def run(bed, command, stdin=None, **extra):
    """Runs a command to its end; its output, or what went wrong with it."""
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(bed, extra),
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()[-TAIL_LINES:]
        raise Failure(f"{command[0]} ended with status {done.returncode}:\n" + indented(said))
    return done.stdout


class Process:
    """One process, by name; it may be running or not."""

    def __init__(self, bed, name):
        self.bed, self.name = bed, name
        self.log = bed.logs / f"{name}.log"
        self.file = bed.run / f"{name}.pid"

    def start(self, command, **extra):
        """Starts it, unless it runs. In a group of its own, so that its workers end with it."""
        if self.pid():
            return False
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment(self.bed, extra),
                cwd=self.bed.directory,
                start_new_session=True,
            )
        self.file.write_text(f"{child.pid} {began(child.pid)}\n")
        return True

    def pid(self):
        """Its id, if it runs."""
        try:
            pid, since = self.file.read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if began(int(pid)) == since else None

    def tell(self, number):
        pid = self.pid()
        if pid:
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                pass

    def forget(self):
        self.file.unlink(missing_ok=True)

    def tail(self, lines=TAIL_LINES):
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return []
        return text.splitlines()[-lines:]

    def failed(self, what):
        """A failure that shows the end of the log."""
        return Failure(f"{self.name} {what}. The end of {self.log}:\n" + indented(self.tail()))

    def wait(self, ready, what, seconds=READY_SECONDS):
        """Waits until `ready()` is true, as long as the process lives."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.pid():
                raise self.failed("ended while it started")
            if time.monotonic() > deadline:
                raise self.failed(f"runs, but after {seconds} s {what}")
            time.sleep(0.2)


def began(pid):
    """When a process began, in the kernel's ticks: with its id, that is who it is. Nothing if it ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def living(groups):
    """Those of these process groups in which something still runs."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if state not in "ZX":
            found.add(int(group))
    return found.intersection(groups)


def started(bed):
    """Every process that has a file, running or not."""
    return [Process(bed, file.stem) for file in sorted(bed.run.glob("*.pid"))] if bed.run.is_dir() else []


def stop(processes, say=lambda text: None):
    """Ends processes: asked first, then made to."""
    groups = {process.pid(): process for process in processes if process.pid()}
    for process in groups.values():
        process.tell(signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    # A worker may outlive its master, and then has the port that the next master wants.
    while (left := living(groups)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for group in left:
        say(f"{groups[group].name} did not end within {STOP_SECONDS} s, and is killed")
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for process in processes:
        process.forget()


def answers(url):
    """Whether something at this address speaks HTTP and is not broken."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def indented(lines):
    return "\n".join(f"    {line}" for line in lines)
