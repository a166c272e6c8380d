#!/usr/bin/env python3
"""A stand-in for `vllm serve` (0.27.0 on a CPU) that is ready in a tenth of a second. For tests only.

    python tests/fakes/vllm.py serve MODEL --port 8000 ...      (--port 0: read the port from the log)

What it copies: the flags, the log and its failures, the processes (APIServer > EngineCore > Worker), the
routes, and every counter as the engine keeps it. What a request gets depends on its prompt alone, so the
same prompts in any order give the same tokens and the same drafts. Standard library only, and of that
neither asyncio nor http.server, whose import would double the time of the start.

Settings, from the environment:
  FAKE_STEP_S=0.002             length of an engine step
  FAKE_ACCEPT=0.7               chance that a draft token is accepted when those before it were
  FAKE_VLLM_VERSION=0.27.0      what /version and the log say
Faults, from the environment:
  FAKE_ONLY_IF=TEXT             the faults below hold only if the joined command line contains TEXT
  FAKE_START_S=S                takes S seconds to be ready, with a line in the log every 50 ms
  FAKE_HANG_START=1             logs its first lines and then nothing, never ready
  FAKE_HEALTH_500=1             /health answers 500 for ever
  FAKE_DIE_AFTER_READY_S=S      dies S seconds after it was ready
  FAKE_DIE_AFTER_TOKENS=N       dies in the step that generates token N, before that step's answers
  FAKE_DIE_HOW=kill|exit0       SIGKILL of the API server (default; EngineCore and Worker stay), or as vLLM
                                ends when its engine dies: error log, open requests get 500, exit code 0
  FAKE_HANG_AFTER_TOKENS=N      makes no more tokens after token N; connections stay open, /metrics answers
  FAKE_RESET_AFTER_TOKENS=N     all series fall to 0 once, at token N
  FAKE_FAIL_REQUESTS=N          every Nth completion request gets HTTP 500
  FAKE_ANSWER=short             half of the tokens asked for, with finish_reason "stop"
  FAKE_COUNT_WRONG=1            generation_tokens counts one token too many per request
  FAKE_DROP_SERIES=NAME,NAME    those series are missing in /metrics (with or without "vllm:" and "_total")
  FAKE_NO_TOKENIZE=1            /tokenize answers 404
  FAKE_IGNORE_TERM=1            SIGTERM and SIGINT do nothing
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.engine.server import main

if __name__ == "__main__":
    main()
