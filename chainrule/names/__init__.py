"""Which names there are: the public ones, other packages' spellings, and what is not offered."""
