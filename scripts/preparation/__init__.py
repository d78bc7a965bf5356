"""Raw data to what fairseq reads: tokenisation, binarisation."""
