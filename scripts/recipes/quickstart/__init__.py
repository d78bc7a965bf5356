"""What the quickstart adds to the scripts that it calls: data that is on every machine, and its report."""

import logging

logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq, once imported, lets every level through
