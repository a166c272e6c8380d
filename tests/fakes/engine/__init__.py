"""What stands behind vllm.py: server.py answers, scheduler.py makes the tokens, metrics.py counts them."""
