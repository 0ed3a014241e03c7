"""The command ``executorch-ggml``: one module per subcommand, ``main`` puts them together."""
