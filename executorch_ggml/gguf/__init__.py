"""From a GGUF file to PyTorch programs whose weights are names of its tensors.

In the order data flows: ``config`` checks what the file says, ``decoder`` is the
model, ``names`` maps parameters to tensors, ``program`` traces, ``delegate``
lowers. No weight is read.
"""
