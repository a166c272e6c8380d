"""Stand-ins for the programs that the tests cannot run."""

from pathlib import Path

#: Run as `python VLLM serve MODEL ...`; its first lines say what it copies and which faults it can have.
VLLM = Path(__file__).with_name("vllm.py")
