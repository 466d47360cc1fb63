"""``python -m dnclab`` does what ``dnclab`` does."""

import sys

from dnclab.cli import main

sys.exit(main())
