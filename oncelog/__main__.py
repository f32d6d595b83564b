"""`python -m oncelog` is the `oncelog` command."""

import sys

from oncelog.cli.main import main

sys.exit(main())
