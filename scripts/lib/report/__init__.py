"""The report: results of the workflow, or of scripts run by hand, beside the paper's numbers."""
