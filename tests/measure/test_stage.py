"""One stage against a small server of our own that is slow where a busy frontend is slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from collector.core.configuration import Stage
from collector.core.plan_schema import Limits
from collector.core.window import Telemetry
from collector.measure import stage as stage_module
from collector.measure.clock import SystemClock
from collector.measure.engines.interface import End
from collector.measure.stage import Measured, measure_stage
from collector.measure.target import Target

STAGE = Stage(
    concurrency=2,
    requests=4,
    prompt_set="general/code",
    prompt_tokens=None,
    output_tokens=8,
    warmup_requests=0,
    warmup_output_tokens=1,
)


@dataclass
class Server:
    """Answers completions after `answer_s` and /metrics after `metrics_s`, counting both."""

    answer_s: float
    metrics_s: float
    completions: int = 0
    connections: int = 0
    scraped_over: list[int] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        mine = self.connections
        try:
            while head := await reader.readline():
                await self.read_body(reader)
                if b"/tokenize" in head:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                body = await (self.metrics(mine) if b"/metrics" in head else self.answer())
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except ConnectionError:
            pass  # the client has hung up in mid-request
        finally:
            writer.close()

    async def read_body(self, reader: asyncio.StreamReader) -> None:
        length = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)

    async def metrics(self, connection: int) -> bytes:
        self.scraped_over.append(connection)
        await asyncio.sleep(self.metrics_s)
        return b'vllm:generation_tokens_total{engine="0"} %d\n' % (self.completions * 8)

    async def answer(self) -> bytes:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.answer_s)
        self.in_flight -= 1
        self.completions += 1
        usage = {"prompt_tokens": 5, "completion_tokens": 8}
        return json.dumps({"usage": usage, "choices": [{"finish_reason": "length"}]}).encode()


@dataclass
class Attached:
    target: Target
    owned: bool = False
    image_digest: str | None = None

    async def ended(self) -> End:
        await asyncio.Event().wait()
        return End()

    async def stop(self, patience_s: float) -> End:
        raise AssertionError(patience_s)

    def owns(self, pid: int) -> bool | None:
        return None

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def log_size(self) -> int:
        return 0

    def log_text(self) -> str:
        return ""


@asynccontextmanager
async def _running(server: Server) -> AsyncIterator[Attached]:
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield Attached(Target(base_url=f"http://127.0.0.1:{port}"))
    await asyncio.sleep(0.05)  # the connections' tasks see that their clients are gone


def _measure(server: Server) -> Measured:
    async def run() -> Measured:
        async with _running(server) as engine:
            return await measure_stage(engine, STAGE, Limits(), SystemClock(), model="tiny", salt="s")

    return asyncio.run(run())


def test_a_sample_that_is_still_under_way_at_the_last_response_does_not_cost_the_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The window's own scrapes have a connection that no cancelled sample can spoil."""
    monkeypatch.setattr(stage_module, "SCRAPE_TIMEOUT_S", 3.0)
    for metrics_s in (0.1, 0.2, 0.35):
        server = Server(answer_s=0.17, metrics_s=metrics_s)
        measured = _measure(server)
        assert (measured.requests_sent, server.completions) == (4, 4)
        assert len(measured.samples) <= 2, "one a second is as often as a scrape may cost the frontend"
        before, *samples, after, confirm = server.scraped_over
        assert samples
        assert before == after == confirm
        assert before not in samples


def test_as_many_requests_as_lanes_are_in_flight_and_every_request_is_sent_once() -> None:
    server = Server(answer_s=0.05, metrics_s=0.0)
    measured = _measure(server)
    assert server.most_in_flight == STAGE.concurrency
    assert [one.index for one in measured.requests] == [0, 1, 2, 3]
    assert {one.lane for one in measured.requests} == {0, 1}
    assert all(one.done and one.completion_tokens == 8 for one in measured.requests)


def test_the_window_holds_all_requests_and_ends_with_the_first_scrape_after_the_last_response() -> None:
    measured = _measure(Server(answer_s=0.05, metrics_s=0.03))
    last = max(one.ended_s for one in measured.requests)
    assert min(one.sent_s for one in measured.requests) >= 0
    assert last + 0.03 <= measured.window_s < last + 0.03 + stage_module.CONFIRM_AFTER_S
    assert measured.scrape_s >= 0.03
    assert measured.before == 'vllm:generation_tokens_total{engine="0"} 0\n'
    assert measured.after == measured.confirm == 'vllm:generation_tokens_total{engine="0"} 32\n'
