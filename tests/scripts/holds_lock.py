"""Takes the lock of a folder, starts a worker that outlives it, and waits to be killed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from dnclab.runs import locked

if __name__ == "__main__":
    with locked(Path(sys.argv[1])):
        worker = os.fork()
        if worker:
            sys.stdout.write(f"{os.getpid()} {worker}\n")
            sys.stdout.flush()
        time.sleep(60)
