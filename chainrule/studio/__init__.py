"""The studio: one HTML file in which a backward pass is stepped through and a model trains.

A page needs nothing but a browser: no server, no network, no other file. `page` puts one together
of the modules in `web/`, styles, recorded traces (`chainrule.record`) and WebAssembly that the
compiler made.
"""
