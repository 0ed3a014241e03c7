"""ExecuTorch's own backend suite, run with our partitioner: ``python -m tests.suite``."""
