"""The command: what it trains, writes, plays and refuses."""
