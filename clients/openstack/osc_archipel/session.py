"""What is done with the client's session: the scope goes out with each request, and each answer is looked at."""

import sys

from osc_archipel import answers

HEADER = "X-Scope"


def watch(session, scope, observer=None):
    """Sends the scope with every request of a session, and has its answers observed; once for each session."""
    if scope:
        session.additional_headers[HEADER] = scope
    hooks = session.session.hooks["response"]
    if not any(getattr(hook, "archipel", False) for hook in hooks):
        hooks.append(hook(observer or OBSERVER))


def hook(observer):
    """In the form that the library `requests` calls for each answer."""

    def observe(response, *_, stream=False, **__):
        observer.headers(response)
        # What is streamed is a file and no list, and must not be read here.
        if not stream and "json" in response.headers.get("Content-Type", ""):
            try:
                observer.tags.add(response.json())
            except ValueError:
                pass

    observe.archipel = True
    return observe


class Observer:
    """What was seen in all answers of one run of the client."""

    def __init__(self, out=None):
        self.tags = answers.Tags()
        self.out = out
        self.told = set()

    def headers(self, response):
        """Warns of sites that are missing, of each once."""
        if response.status_code >= 400:
            return
        for text in answers.complaints(response.headers):
            if text not in self.told:
                self.told.add(text)
                print(f"warning: {text}", file=self.out or sys.stderr)


OBSERVER = Observer()
