"""The embedded engine: behaves as vLLM does on a host that a profile describes, and says that it emulates."""
