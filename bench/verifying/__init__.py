"""What observing costs, and what each rule of the verifier is worth."""
