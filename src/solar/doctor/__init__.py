"""What works on this machine, in words that can be pasted into a bug report."""

from solar.doctor.report import Report, examine

__all__ = ["Report", "examine"]
