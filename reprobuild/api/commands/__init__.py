"""Each step of the command line as a function, a module for each. docs/api.md has examples."""
