"""For each line of standard input makes a sandbox, runs a command in it, and ends it; prints
how long that took, in seconds."""

import sys
import time

from e2b import Sandbox


def once():
    began = time.perf_counter()
    sandbox = Sandbox.create()
    result = sandbox.commands.run("true")
    killed = sandbox.kill()
    took = time.perf_counter() - began
    return took if result.exit_code == 0 and killed else "failed"


# Connections and classes that the first use makes are not what is timed.
for _ in range(5):
    once()
print("ready", flush=True)
for _ in sys.stdin:
    print(once(), flush=True)
