"""Random graphs: eager against delegate, and IR references against the C++ runtime.

As commands, for as many graphs as wanted::

    python -m tests.property ir --graphs 20000
    python -m tests.property export --graphs 2000
"""
