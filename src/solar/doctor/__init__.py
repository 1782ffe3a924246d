"""What works on this machine, as a report to paste into a bug report."""

from solar.doctor.report import Report, examine

__all__ = ["Report", "examine"]
