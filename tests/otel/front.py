"""A service that asks another one, and tells what it heard. It knows of no site but its own, and of no scope."""

import os
import threading

import requests
from flask import Flask, request

app = Flask(__name__)
barriers: dict[int, threading.Barrier] = {}
lock = threading.Lock()


@app.get("/")
def ask():
    answer = requests.get(os.environ["BACK"] + "/", params=request.args, timeout=30)
    return {
        "site": os.environ["SITE"],
        "path": request.path,
        "headers": dict(request.headers),
        "back": answer.json(),
    }


@app.get("/together/<int:number>")
def ask_together(number):
    """Asks once this many requests are here, so that they overlap for certain."""
    with lock:
        barrier = barriers.setdefault(number, threading.Barrier(number))
    barrier.wait(timeout=30)
    return ask()
