"""A service that says where it runs, and what it was sent. It knows of no scope."""

import os

from flask import Flask, request

app = Flask(__name__)


@app.get("/")
def answer():
    return {"site": os.environ["SITE"], "args": dict(request.args), "headers": dict(request.headers)}
