"""What the measurements share: processes on a core of their own, and what the kernel says of them.

Everything is on loopback. Whatever was started is stopped by its pid, also after a failure or a signal."""

import glob
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# BENCH_CORES=2,3 has them elsewhere; both may be the same, to see that a measurement works.
PROXY_CORE, LOAD_CORE = os.environ.get("BENCH_CORES", "0,1").split(",")
BOTH_CORES = f"{PROXY_CORE},{LOAD_CORE}"
ROOT = Path(__file__).resolve().parent.parent
ARCHIPEL = ROOT / "target/dist/archipel"
RESULTS = ROOT / "target/bench"


class Rig:
    """Use it in a `with`: leaving it stops all that it started."""

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))
        # As many files as may be open: connections are.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.directory = tempfile.TemporaryDirectory(prefix="archipel-bench-")
        self.dir = Path(self.directory.name)
        # nginx writes what it buffers with the rights of another user.
        self.dir.chmod(0o755)
        self.running = []
        return self

    def __exit__(self, *_):
        while self.running:
            self.stop(self.running[-1])
        self.directory.cleanup()

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def start(self, name, command, core, port):
        """Starts a process on one core, and waits until it accepts connections."""
        log = open(self.dir / f"{name}.log", "wb")
        command = ["taskset", "-c", str(core), *map(str, command)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)
        self.running.append(process)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return process
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{name} did not start:\n{(self.dir / f'{name}.log').read_text()[-2000:]}")

    def spin(self, core):
        """Keeps a core from halting: its time is anybody's who wants it."""
        command = ["taskset", "-c", str(core), "chrt", "--idle", "0", sys.executable, "-c", "while True: pass"]
        self.running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))

    def stop(self, process):
        self.running.remove(process)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for free in sockets:
        free.bind(("127.0.0.1", 0))
    ports = [free.getsockname()[1] for free in sockets]
    for free in sockets:
        free.close()
    return ports


def cpu_seconds(pid):
    """The processor time of all threads: what utime + stime count in ticks, in nanoseconds here."""
    threads = glob.glob(f"/proc/{pid}/task/*/schedstat")
    return sum(int(Path(thread).read_text().split()[0]) for thread in threads) / 1e9


def memory_mib(pid, what):
    """`VmRSS`: what is resident now. `VmHWM`: the most that ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no {what}")
