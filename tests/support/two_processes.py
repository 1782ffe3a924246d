"""Training in two processes, as torchrun would start them."""

import os
import subprocess
from collections.abc import Sequence


def in_two_processes(command: Sequence[str], port: int, **variables: str) -> None:
    """Run a command twice at once, and insist that both end well."""
    common = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **variables,
    }
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
