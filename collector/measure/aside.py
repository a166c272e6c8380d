"""Asks the driver in a thread of its own: a driver that hangs holds up neither the load nor the exit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

#: NVML answers within milliseconds; a card that falls off the bus can make it wait for ever.
ANSWER_S = 5.0


async def aside(ask: Callable[[], Answer]) -> Answer:
    """Return what a blocking call answers. Raises TimeoutError; the thread is then left to itself."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Answer] = loop.create_future()

    def tell(answer: Answer | None, error: BaseException | None) -> None:
        if not answered.done():
            if error is None:
                answered.set_result(answer)  # type: ignore[arg-type]  # without an error there is an answer
            else:
                answered.set_exception(error)

    def work() -> None:
        answer, error = None, None
        try:
            answer = ask()
        except Exception as one:  # it belongs to whoever waits
            error = one
        with contextlib.suppress(RuntimeError):  # the loop has gone, and nobody waits
            loop.call_soon_threadsafe(tell, answer, error)

    threading.Thread(target=work, daemon=True).start()
    async with asyncio.timeout(ANSWER_S):
        return await answered
