"""Has a Jupyter kernel run the program that each line of standard input names, and prints
how long that took, in seconds: from the request until its reply is there and the kernel
says that it is idle, which is when all output has come."""

import sys
import time

from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(extra_arguments=["--log-level=ERROR"])
print("ready", flush=True)
try:
    for line in sys.stdin:
        with open(line.rstrip("\n"), encoding="utf-8") as file:
            text = file.read()
        began = time.perf_counter()
        asked = client.execute(text)
        while True:
            message = client.get_iopub_msg(timeout=60)
            if (
                message["parent_header"].get("msg_id") == asked
                and message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
            ):
                break
        reply = client.get_shell_msg(timeout=60)
        took = time.perf_counter() - began
        print(took if reply["content"]["status"] == "ok" else "failed", flush=True)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
