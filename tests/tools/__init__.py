"""The C++ programs, as a user runs them."""
