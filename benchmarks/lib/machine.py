"""Where and when a benchmark ran: every result carries it."""

import datetime
import os
import platform
from typing import Any

from solar.doctor.machine import processor


def machine() -> dict[str, Any]:
    """Processor, cores, accelerator, versions and date."""
    import torch

    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
