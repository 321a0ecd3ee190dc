"""What the text of forwards and backwards says of a mistake that numbers leave open."""
