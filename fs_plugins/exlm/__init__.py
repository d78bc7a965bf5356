"""The method, and the MLM beside it, in PyTorch alone; an export copies these files.

To be read as section 4 of the paper: ``settings`` (what may be set), ``rotary`` and ``encoder``,
``expansion`` (masked tokens to k states, section 4.2), ``transitions`` (the equation of E), ``alignment``
(section 4.3), ``graph`` (the graph of a batch), ``model``. ``links`` is the authors' name of the tensor of
transitions' log-probabilities.
"""
