"""What the quickstart adds to the scripts that it calls: data that is on every machine, and its report."""
