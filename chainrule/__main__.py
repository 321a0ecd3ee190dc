"""`python -m chainrule` is the command `chainrule`."""

import sys

from chainrule.cli.main import main

sys.exit(main())
