"""The methods of a tensor that are functions: their making, their forms, their signatures."""
