"""Runs a command to its end: its seconds and its peak resident memory, as a line of JSON."""

import json
import resource
import subprocess
import sys
import time

begun = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
seconds = time.monotonic() - begun
# getrusage(2): in KiB.
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "peak_bytes": peak}))
