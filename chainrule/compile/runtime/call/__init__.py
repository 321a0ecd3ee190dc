"""What a call costs: the short way of calls that are alike, many calls as one, dynamic sizes."""
