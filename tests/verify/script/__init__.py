"""`chainrule verify script.py`: how scripts are run, and what is wrong in their loops."""
