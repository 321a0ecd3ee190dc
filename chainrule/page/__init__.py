"""What every picture and page of chainrule is made of: one palette, one way to write SVG and HTML.

Nothing here knows tensors, graphs or reports, so that all who show something can stand on it.
"""
