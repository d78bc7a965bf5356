"""The report: results of the workflow, or of scripts run by hand, beside the paper's numbers."""

import logging

for name in ("markdown_it", "matplotlib"):
    logging.getLogger(name).setLevel(logging.WARNING)  # fairseq, once imported, lets every level through
