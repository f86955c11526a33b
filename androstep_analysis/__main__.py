"""`python -m androstep_analysis` is the command `androstep`."""

import sys

from androstep_analysis.cli import main

sys.exit(main())
