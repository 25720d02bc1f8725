"""`python -m accel` is `accel`."""

from __future__ import annotations

import sys

from accel.cli import main

sys.exit(main())
