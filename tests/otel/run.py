"""A scope given to the first service decides where the second is called, though neither knows of scopes.

    python tests/otel/run.py target/debug/archipel

The services are Flask under OpenTelemetry's standard auto-instrumentation, the client is curl. Each check
prints one line; the exit status says whether all passed.
"""

import re
import signal
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from world import FRONTS, SITES, World, curl

ONE, TWO = SITES
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01"
TOGETHER = 16

CHECKS = []


def check(about):
    """A check, with what it shows."""

    def register(function):
        CHECKS.append((about, function))
        return function

    return register


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def where(answer):
    """Where front and back ran."""
    equal(answer.status, 200, f"the status of {answer.body!r}")
    said = answer.json()
    return said["site"], said["back"].get("site", said["back"])


def key(headers):
    """The key that a service was handed in `tracestate`."""
    found = re.search(r"\barchipel=([0-9a-f]{32})\b", headers.get("Tracestate", ""))
    if not found:
        raise AssertionError(f"there is no key in {headers}")
    return found[1]


@check("without a scope, each service is that of the site where the client is")
def _(world):
    for site in SITES:
        answer = curl(world.url(site, "front"))
        equal(where(answer), (site, site), f"a request at {site}")
        equal(answer.headers.get("scope-sites"), None, "Scope-Sites")


@check("curl reaches a service of another site with X-Scope")
def _(world):
    for site in SITES:
        answer = curl(world.url(ONE, "back"), f"X-Scope: back: {site}")
        equal(answer.json()["site"], site, f"back: {site}")


@check("X-Scope on the first call decides where the second goes, wherever the client is")
def _(world):
    for client in SITES:
        for front in SITES:
            for back in SITES:
                answer = curl(world.url(client, "front"), f"X-Scope: front: {front}, back: {back}")
                equal(where(answer), (front, back), f"front: {front}, back: {back}, at {client}")


@check("a scope that names only the second service leaves the first where the client is")
def _(world):
    answer = curl(world.url(ONE, "front"), f"X-Scope: back: {TWO}")
    equal(where(answer), (ONE, TWO), f"back: {TWO}")


@check("a scope that names only the first takes the second along")
def _(world):
    answer = curl(world.url(ONE, "front"), f"X-Scope: front: {TWO}")
    equal(where(answer), (TWO, TWO), f"front: {TWO}")


@check("a scope can be a prefix of the path, percent-encoded or plain; the service sees its own path")
def _(world):
    for back in SITES:
        scope = f"front: {ONE}, back: {back}"
        for written in (quote(scope, safe=""), scope.replace(" ", "")):
            answer = curl(world.url(ONE, "front", f"/_scope/{written}/"))
            equal(where(answer), (ONE, back), f"the prefix /_scope/{written}/")
            equal(answer.json()["path"], "/", "the path that front saw")


@check("a scope can be a member of baggage")
def _(world):
    for back in SITES:
        baggage = f"user=alice,scope={quote(f'front: {ONE}, back: {back}', safe='')}"
        answer = curl(world.url(ONE, "front"), f"baggage: {baggage}")
        equal(where(answer), (ONE, back), f"baggage: {baggage}")


@check("the services see traceparent, tracestate and baggage; X-Scope and the sites' own headers they do not")
def _(world):
    answer = curl(
        world.url(ONE, "front"),
        f"X-Scope: front: {ONE}, back: {TWO}",
        TRACEPARENT,
        "tracestate: vendor=1",
        "baggage: user=alice",
    )
    equal(where(answer), (ONE, TWO), "the sites")
    front = answer.json()["headers"]
    back = answer.json()["back"]["headers"]
    for whose, headers in (("front", front), ("back", back)):
        equal(headers.get("Traceparent", "").split("-")[1:2], [TRACE], f"the trace that {whose} is part of")
        equal("vendor=1" in headers["Tracestate"], True, f"the client's own tracestate at {whose}")
        equal("user=alice" in headers["Baggage"], True, f"the client's own baggage at {whose}")
        equal("scope=" in headers["Baggage"], True, f"the scope in baggage at {whose}")
        hidden = [name for name in headers if name.lower().startswith(("x-scope", "archipel"))]
        equal(hidden, [], f"headers of the mesh's at {whose}")
    if key(front) == key(back):
        raise AssertionError("the key of one site reached the other")


@check(f"{TOGETHER} requests of one trace, all in one front at once, each keep their own scope")
def _(world):
    def ask(number):
        site = SITES[number % len(SITES)]
        url = world.url(ONE, "front", f"/together/{TOGETHER}?number={number}")
        answer = curl(url, f"X-Scope: front: {ONE}, back: {site}", TRACEPARENT)
        equal(where(answer), (ONE, site), f"request {number}")
        said = answer.json()
        equal(said["back"]["args"], {"number": str(number)}, "the request that back answered")
        equal(said["headers"]["Traceparent"].split("-")[1], TRACE, "the trace")
        return key(said["headers"])

    with ThreadPoolExecutor(TOGETHER) as pool:
        keys = list(pool.map(ask, range(TOGETHER)))
    # Requests with one scope may share a key; those with different scopes never do.
    of_each_site = [set(keys[first :: len(SITES)]) for first in range(len(SITES))]
    equal(set.intersection(*of_each_site), set(), "keys that stand for two scopes")


@check("either propagator is enough: tracecontext alone, baggage alone")
def _(world):
    for service in ("front-tracecontext", "front-baggage"):
        for back in SITES:
            answer = curl(world.url(ONE, service), f"X-Scope: back: {back}", TRACEPARENT)
            equal(where(answer), (ONE, back), f"{service} with OTEL_PROPAGATORS={FRONTS[service]}")


@check("a service that hands nothing on calls its own site: it is the tracing that carries the scope")
def _(world):
    answer = curl(world.url(ONE, "front-untraced"), f"X-Scope: back: {TWO}", TRACEPARENT)
    equal(where(answer), (ONE, ONE), "front without instrumentation")


@check("a bad scope is a 400 that points at the mistake")
def _(world):
    # The scope, and what the caret is under: the second one ends where a colon is missing.
    for scope, mistake in ((f"front: {ONE}, back: Sit2", "Sit2"), (f"front: {ONE}, back {TWO}", "")):
        answer = curl(world.url(ONE, "back"), f"X-Scope: {scope}")
        equal(answer.status, 400, f"the status for `{scope}`")
        equal(answer.headers.get("content-type"), "application/problem+json", "Content-Type")
        lines = answer.json()["detail"].splitlines()
        pointed = [(above, below.index("^")) for above, below in zip(lines, lines[1:]) if "^" in below]
        equal([above.endswith(scope) for above, _ in pointed], [True], f"the scope above a caret in {lines}")
        equal([above[at:] for above, at in pointed], [mistake], "what the caret is under")


@check("a mistake in what only the second service needs is refused before the first has run")
def _(world):
    answer = curl(world.url(ONE, "front"), f"X-Scope: front: {ONE}, back: Sit2")
    equal(answer.status, 400, "the status")
    equal("^" in answer.json()["detail"], True, "a caret in the detail")


def main():
    # A test that is told to stop ends what it started.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    (archipel,) = sys.argv[1:]
    passed = failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="archipel-otel-") as directory,
        World(Path(archipel).resolve(), Path(directory)) as world,
    ):
        for about, function in CHECKS:
            try:
                function(world)
            except Exception as error:
                failed += 1
                print(f"FAILED  {about}\n        {error or traceback.format_exc()}", flush=True)
            else:
                passed += 1
                print(f"ok      {about}", flush=True)
        if failed:
            world.show_logs()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
