"""Makes the helpers beside this file (``gguf_models``, …) importable from every test."""
