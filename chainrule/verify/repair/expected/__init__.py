"""What values of a backward should be, as far as the forward tells: where a mistake can be."""
