"""Many photos become a store of descriptors."""

from solar.describe.extractor import Pace, Settings, extract
from solar.describe.store import Store

__all__ = ["Pace", "Settings", "Store", "extract"]
