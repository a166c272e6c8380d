"""The processes below the API server, which do nothing but live and end as vLLM's do."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from tests.fakes.engine import faults
from tests.fakes.engine.log import API, CORE, PIDS, log, raw

STOP = {signal.SIGTERM, signal.SIGINT}


class Processes:
    """EngineCore and its workers. `gone` ends, to be read, when the last of them has."""

    def __init__(self, tensor_parallel: int, listener: socket.socket) -> None:
        ranks = [""] if tensor_parallel == 1 else [f"_TP{rank}" for rank in range(tensor_parallel)]
        self.worker = f"Worker{ranks[0]}"
        self.gone, report = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # until all of them are known
        PIDS[CORE] = fork(lambda: run_core(ranks, listener, report))
        os.close(report)
        PIDS.update(json.loads(os.read(self.gone, 65536)))
        for number in STOP:
            signal.signal(number, signal.SIG_IGN if faults.text("IGNORE_TERM") else lambda *_: self.shut_down())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)

    def stop(self) -> None:
        os.kill(PIDS[CORE], signal.SIGTERM)
        os.read(self.gone, 1)

    def shut_down(self) -> NoReturn:
        log(API, "launcher.py:112", "[shutdown] API server: shutdown triggered")
        log(CORE, "core.py:1332", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        self.stop()
        log(API, "core_client.py:690", "[shutdown] MPClient: engine manager stopped")
        raw(API, "INFO:     Shutting down\nINFO:     Application shutdown complete.")
        os._exit(0)


def fork(body: Callable[[], object]) -> int:
    """Start a child that ends at SIGTERM, not at SIGINT, and in any case after ten minutes."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)
            signal.alarm(600)
            body()
        finally:
            os._exit(1)
    return pid


def run_core(ranks: list[str], listener: socket.socket, report: int) -> None:
    """Start the workers, report their pids, and live until one of them dies."""
    listener.close()
    end, alive = os.pipe()  # nothing is ever written: a worker reads its end when EngineCore is gone

    def work() -> None:
        os.close(alive)
        os.read(end, 1)

    workers = {f"Worker{rank}": fork(work) for rank in ranks}
    os.write(report, json.dumps(workers).encode())
    pid, _ = os.waitpid(-1, 0)
    worker_died([*workers.values()].index(pid))


def worker_died(rank: int) -> None:
    why = f"Worker proc VllmWorker-{rank} died unexpectedly (exit code: None), shutting down executor."
    log(CORE, "multiproc_executor.py:295", why, "ERROR")
