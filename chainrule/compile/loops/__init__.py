"""The loop language: its grammar and printer, where buffers lie, which elements are meant."""
