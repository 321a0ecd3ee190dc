"""What a traced call is: ops on terms, with sizes that may be polynomials in symbols."""
