"""From subjects to a report: measured, named, corrected; and what is looked at in special ways."""
