"""What a measurement leaves behind: rows of the table, plots, and the numbers themselves, in `target/bench/NAME.json`.
`./bench page` makes the page of all that is there."""

import json
import statistics
import time
from pathlib import Path

from rig import RESULTS, ROOT

# Above this share of its processors, a machine had something else to do.
QUIET = 0.1


class Results:
    """Made before anything is measured: it looks how busy the machine is without us, and once more in the end."""

    def __init__(self, name, quick=False, minds_load=True):
        self.name, self.quick, self.minds_load = name, quick, minds_load
        self.rows, self.plots = [], []
        self.at, self.busy = time.strftime("%Y-%m-%d %H:%M", time.gmtime()), busy() if minds_load else 0
        if self.busy > QUIET:
            print(f"the machine has something else to do, for {self.busy:.0%} of its processors: only ratios tell something")

    def row(self, what, aim, measured, verdict, spread="", command=None):
        """`verdict`: reached, equal, missed; nothing where there is no aim."""
        self.rows.append({"what": what, "aim": aim, "measured": measured, "spread": spread, "verdict": verdict,
                          "command": command or f"./bench {self.name}"})
        tail = f"; aim {aim}: {verdict}" if aim else ""
        print(f"  {what + ':':58} {measured}{f' [{spread}]' if spread else ''}{tail}", flush=True)

    def plot(self, title, unit, series, aim=None, noise=None):
        """`series`: for each name what each round gave. `noise`: as far from 1 is the same."""
        self.plots.append({"title": title, "unit": unit, "series": series, "aim": aim, "noise": noise})

    def save(self, raw):
        self.busy = max(self.busy, busy() if self.minds_load else 0)
        directory = directory_of(self.quick)
        directory.mkdir(parents=True, exist_ok=True)
        document = {"at": self.at, "busy": self.busy, "quick": self.quick, "rows": self.rows, "plots": self.plots, "raw": raw}
        path = directory / f"{self.name}.json"
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(f"raw numbers: {path.relative_to(ROOT)}", flush=True)


def directory_of(quick):
    """What only shows that a measurement works does not take the place of one."""
    return RESULTS / "quick" if quick else RESULTS


def busy():
    """Which share of the processors is in use, in a second in which we do nothing."""
    def times():
        return [int(number) for number in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    before = times()
    time.sleep(1)
    spent = [after - before for before, after in zip(before, times())]
    return round(1 - (spent[3] + spent[4]) / (sum(spent) or 1), 2)


def at_least(value, aim, noise=0.0):
    """Reached, unless it is less; less by no more than the noise is equal."""
    return "reached" if value >= aim else "equal" if value >= aim * (1 - noise) else "missed"


def at_most(value, aim, noise=0.0):
    return "reached" if value <= aim else "equal" if value <= aim * (1 + noise) else "missed"


def ratios(theirs, ours):
    """Round by round: the machine's mood falls out."""
    return [their / our for their, our in zip(theirs, ours)]


def noise_of(control):
    """What two that are the same differ by: the quartiles of their ratios, and the median's distance from 1."""
    return max(abs(1 - ratio) for ratio in quartiles(control))


def quartiles(numbers):
    return statistics.quantiles(numbers, n=4, method="inclusive") if len(numbers) > 1 else list(numbers) * 3


def spread(numbers, digits):
    low, _, high = quartiles(numbers)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def shown(numbers, digits):
    return f"{statistics.median(numbers):8.{digits}f} [{spread(numbers, digits)}]"


def quick_option(options):
    """`--quick` sees that a measurement works; its numbers mean nothing."""
    options.add_argument("--quick", action="store_true", help="see that it works; the numbers mean nothing")
