"""A zygote for tests: does what it is told, and tells what came of it."""

import json
import socket
import sys

import _sandbox_template

for name in sys.argv[1].split():
    __import__(name)

_orders = socket.socket(fileno=_sandbox_template.join()).makefile("rw")
for _line in _orders:
    _names = {}
    try:
        exec(json.loads(_line), _names)
        _answer = _names.get("out")
    except BaseException as error:
        _answer = "error: %r" % error
    _orders.write(json.dumps(str(_answer)) + "\n")
    _orders.flush()
