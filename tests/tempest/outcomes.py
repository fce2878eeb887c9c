"""Reads what Tempest wrote of a run (subunit) from standard input, and prints it as JSON. With Tempest's own Python."""

import json
import re
import sys

import subunit
import testtools

WORDS = {"success": "passed", "xfail": "passed", "skip": "skipped", "exists": "not run", "inprogress": "not run"}
# What is said of a whole class stands in the place of its tests.
CLASS = re.compile(r"^setUpClass \((.*)\)$")


def main():
    told, classes = {}, {}

    def tell(test):
        # Behind the name stand an id and attributes: `test_list_users[id-…,smoke]`.
        name = test["id"].partition("[")[0]
        details = {key: content.as_text() for key, content in test["details"].items() if content.content_type.type == "text"}
        why = details.get("reason") or last_line(details.get("traceback", ""))
        began, ended = test["timestamps"]
        seconds = (ended - began).total_seconds() if began and ended else 0
        outcome = {"outcome": WORDS.get(test["status"], "failed"), "why": why.strip(), "seconds": round(seconds, 1)}
        whole = CLASS.match(name)
        if whole:
            classes[whole[1]] = outcome
        elif test["status"] != "exists" or name not in told:
            told[name] = outcome

    result = testtools.StreamToDict(tell)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(result)
    result.stopTestRun()
    told.pop("stdout", None)
    for name, outcome in told.items():
        if outcome["outcome"] == "not run":
            told[name] = classes.get(name.rpartition(".")[0], outcome)
    json.dump(told, sys.stdout, indent=1, sort_keys=True)


def last_line(traceback):
    """What went wrong, without where: the exception, and what of it follows on the same line."""
    lines = [line for line in traceback.splitlines() if line and not line.startswith((" ", "Traceback", "}}}"))]
    return lines[-1] if lines else ""


main()
