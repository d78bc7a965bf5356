"""The library behind the scripts and the workflow: plans, output folders, formats, tables and figures."""
