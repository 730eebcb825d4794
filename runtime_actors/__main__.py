"""`python -m runtime_actors` is `lineup`."""

import sys

from runtime_actors.cli import main

sys.exit(main())
