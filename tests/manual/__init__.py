"""Programs that test the tests; each says how it is run. pytest does not collect them."""
