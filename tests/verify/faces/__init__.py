"""What users call: `verify.check` and its kin, `%%verify` in a notebook."""
