"""Programs that test the tests and the readers; each says how it is run. pytest does not collect them."""
