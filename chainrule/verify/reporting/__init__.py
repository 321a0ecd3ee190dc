"""What a user sees: a report as text, JSON, SARIF and HTML."""
