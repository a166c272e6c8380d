"""The routes: what vLLM answers, whole and in chunks, in the process and over TCP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from collector import __version__
from collector.core.engine_log import EMULATED_BY
from collector.core.series import Samples
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.faults import parse_faults
from collector.emulator.server import RealClock, bind, serve
from collector.emulator.transport import EngineTransport
from collector.measure.scrape import parse
from tests.emulator.engines import make, profile, scenario, setup, started, step_time, total

MTP = {"speculation": "mtp", "num_speculative_tokens": 4}
HI = {"model": "plain", "prompt": "Say hi to all 12 of them, please.", "max_tokens": 20, "ignore_eos": True}
CHAT = {
    "model": "plain",
    "messages": [{"role": "user", "content": "Write a Python function."}],
    "max_tokens": 20,
    "ignore_eos": True,
}


@asynccontextmanager
async def client_of(engine: EmbeddedEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        started(engine),
        httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine", timeout=100) as client,
    ):
        yield client


async def scrape(client: httpx.AsyncClient) -> Samples:
    return parse((await client.get("/metrics")).text)


def events(text: str) -> list[dict[str, Any]]:
    """Return the objects of a stream, which must end as streams do."""
    parts = text.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def test_the_small_routes_answer_as_vllm_does() -> None:
    async def work() -> None:
        async with client_of(make()) as client:
            assert (await client.get("/health")).text == ""
            assert (await client.get("/version")).json() == {
                "version": "0.27.0",
                EMULATED_BY: f"collector {__version__}",
            }
            card = (await client.get("/v1/models")).json()["data"][0]
            assert (card["id"], card["max_model_len"]) == ("plain", 2048)
            assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain")
            assert (await client.get("/nothing")).status_code == 404

    scenario(work)


@pytest.mark.parametrize(("path", "body"), [("/v1/completions", HI), ("/v1/chat/completions", CHAT)])
def test_usage_agrees_with_the_tokenizer_and_with_the_counters(path: str, body: dict[str, Any]) -> None:
    async def work() -> None:
        async with client_of(make()) as client:
            counted = (await client.post("/tokenize", json=body)).json()
            answer = (await client.post(path, json=body)).json()
            usage, choice = answer["usage"], answer["choices"][0]
            assert usage["prompt_tokens"] == counted["count"] == len(counted["tokens"])
            assert (usage["completion_tokens"], choice["finish_reason"]) == (20, "length")
            text = choice["text"] if path == "/v1/completions" else choice["message"]["content"]
            assert len(text.split()) == 20
            found = await scrape(client)
            assert total(found, "prompt_tokens_total") == usage["prompt_tokens"]
            assert total(found, "generation_tokens_total") == 20
            handler = (("handler", path), ("method", "POST"), ("status", "2xx"))
            assert found["http_requests_total"][handler] == 1

    scenario(work)


def test_a_route_that_is_not_there_is_counted_as_none() -> None:
    async def work() -> None:
        async with client_of(make()) as client:
            for path in ("/absent", "/wp-admin"):
                assert (await client.get(path)).status_code == 404
            handler = (("handler", "none"), ("method", "GET"), ("status", "4xx"))
            assert (await scrape(client))["http_requests_total"] == {handler: 2}

    scenario(work)


def test_a_longer_text_has_more_tokens_and_a_chat_those_of_its_template() -> None:
    async def work() -> None:
        async with client_of(make()) as client:

            async def count(**body: Any) -> int:
                return int((await client.post("/tokenize", json={"model": "plain"} | body)).json()["count"])

            one, two = await count(prompt="twelve words"), await count(prompt="twelve words twelve words")
            assert two == 2 * one
            assert await count(prompt="안녕하세요 여러분") > 2
            assert await count(messages=[{"role": "user", "content": "twelve words"}]) == one + 8
            assert await count(prompt=[1, 2, 3]) == 3

    scenario(work)


def test_a_stream_has_a_chunk_for_each_step_and_says_its_usage_when_asked() -> None:
    async def work() -> None:
        async with client_of(make(MTP)) as client:
            body = HI | {"max_tokens": 100, "stream": True, "stream_options": {"include_usage": True}}
            *chunks, last = events((await client.post("/v1/completions", json=body)).text)
            assert last["choices"] == []
            assert last["usage"]["completion_tokens"] == 100
            found = await scrape(client)
            steps = total(found, "time_to_first_token_seconds_count") + total(
                found, "inter_token_latency_seconds_count"
            )
            assert len(chunks) == steps < 100
            assert [one["choices"][0]["finish_reason"] for one in chunks] == [None] * (len(chunks) - 1) + ["length"]
            whole = (await client.post("/v1/completions", json=HI | {"max_tokens": 100})).json()
            assert "".join(one["choices"][0]["text"] for one in chunks) == whole["choices"][0]["text"]

    scenario(work)


def test_a_chat_stream_begins_with_the_role_and_counts_up_when_asked() -> None:
    async def work() -> None:
        async with client_of(make()) as client:
            body = CHAT | {"stream": True, "stream_options": {"continuous_usage_stats": True}}
            first, *chunks = events((await client.post("/v1/chat/completions", json=body)).text)
            assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
            assert [one["usage"]["completion_tokens"] for one in chunks] == list(range(1, 21))
            assert first["object"] == "chat.completion.chunk"

    scenario(work)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"max_tokens": 4000}, 400, "This model's maximum context length is 2048 tokens."),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": {}}, 400, "prompt"),
        ({"n": 2}, 400, "one choice"),
    ],
)
def test_a_wrong_request_is_refused_in_vllms_words(change: dict[str, Any], status: int, said: str) -> None:
    async def work() -> None:
        async with client_of(make()) as client:
            answer = await client.post("/v1/completions", json=HI | change)
            assert answer.status_code == status
            assert said in answer.json()["error"]["message"]
            broken = await client.post("/v1/completions", content=b"{")
            assert broken.status_code == 400
            assert total(await scrape(client), "prompt_tokens_total") == 0

    scenario(work)


def test_without_ignore_eos_an_answer_may_end_by_itself() -> None:
    async def work() -> None:
        plain = profile().models["plain"].model_copy(update={"answer_tokens": 30})
        engine = make(of=profile().model_copy(update={"models": {"plain": plain}}))
        async with client_of(engine) as client:
            ends = []
            for index in range(8):
                body = HI | {"prompt": f"{index} words", "max_tokens": 40, "ignore_eos": False}
                answer = (await client.post("/v1/completions", json=body)).json()
                ends.append((answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]))
            assert {reason for reason, _ in ends} == {"stop", "length"}
            assert all((count == 40) == (reason == "length") for reason, count in ends)
            found = await scrape(client)
            stopped = sum(reason == "stop" for reason, _ in ends)
            assert total(found, "request_success_total", finished_reason="stop") == stopped

    scenario(work)


def test_acceptance_follows_the_kind_of_the_prompt() -> None:
    texts = {"code": "Write a Python function.", "korean": "서울에 대해 설명해 주세요."}

    async def work() -> None:
        rates = {}
        async with client_of(make(MTP)) as client:
            for kind, text in texts.items():
                before = await scrape(client)
                body = CHAT | {"messages": [{"role": "user", "content": text}], "max_tokens": 400}
                assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
                after = await scrape(client)
                accepted, drafted = (
                    total(after, name) - total(before, name)
                    for name in ("spec_decode_num_accepted_tokens_total", "spec_decode_num_draft_tokens_total")
                )
                rates[kind] = accepted / drafted
        assert rates["code"] > 0.6 > 0.3 > rates["korean"]

    scenario(work)


def test_it_serves_real_clients_over_tcp_and_drops_those_that_hang_up() -> None:
    async def work() -> None:
        engine = quick(200)
        async with served(engine) as (serving, client):
            assert (await client.get("/health")).status_code == 200
            body = HI | {"max_tokens": 50, "stream": True, "stream_options": {"include_usage": True}}
            *chunks, last = events((await client.post("/v1/completions", json=body)).text)
            assert len(chunks) == last["usage"]["completion_tokens"] == 50
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/completions", json=HI | {"max_tokens": 2000}, timeout=0.02)
            await asyncio.sleep(0.1)
            found = parse((await client.get("/metrics")).text)
            assert total(found, "request_success_total") == 1
            assert 50 < total(found, "generation_tokens_total") < 2000
            assert total(found, "num_requests_running") == 0
            with pytest.raises(OSError, match="in use"):
                bind("127.0.0.1", client.base_url.port or 0)
            await engine.stop()
            assert await serving == 0

    asyncio.run(asyncio.wait_for(work(), 30))


@asynccontextmanager
async def served(engine: EmbeddedEngine) -> AsyncIterator[tuple[asyncio.Task[int], httpx.AsyncClient]]:
    """Serve an engine over TCP and give its task and a client, once it answers."""
    taken = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    serving = asyncio.create_task(serve(engine, taken))
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
        await engine.ready()
        while not serving.done():
            try:
                await client.get("/health")
            except httpx.ConnectError:
                await asyncio.sleep(0.01)
            else:
                break
        yield serving, client
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def quick(speed: float, **faults: Any) -> EmbeddedEngine:
    clock = RealClock(speed=speed)
    return EmbeddedEngine(profile(), setup(), clock=clock, step_time=step_time, faults=parse_faults(faults))


def test_cancelled_the_server_answers_whoever_waits_and_ends() -> None:
    async def work() -> None:
        async with served(quick(200)) as (serving, client):
            asking = asyncio.create_task(client.post("/v1/completions", json=HI | {"max_tokens": 2000}))
            await asyncio.sleep(0.02)
            serving.cancel()
            assert (await asking).status_code == 500
            with pytest.raises(asyncio.CancelledError):
                await serving

    asyncio.run(asyncio.wait_for(work(), 30))


def test_an_engine_that_dies_takes_its_server_with_it() -> None:
    async def work() -> None:
        async with served(quick(200, die_after_tokens=5, die_exit_code=3)) as (serving, client):
            assert (await client.post("/v1/completions", json=HI)).status_code == 500
            assert await serving == 3
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")

    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_refused_start_never_listens() -> None:
    async def work() -> None:
        async with served(quick(200, refuse="ValueError: no")) as (serving, client):
            assert await serving == 1
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")

    asyncio.run(asyncio.wait_for(work(), 30))


def test_small_chunks_are_sent_at_once() -> None:
    """With Nagle's algorithm on, a stream's first chunk would wait 40 ms for the client's ACK."""

    async def work() -> None:
        options = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            options.set_result(found)
            writer.close()

        taken = bind("127.0.0.1", 0)
        async with await asyncio.start_server(accepted, sock=taken):
            _, writer = await asyncio.open_connection(*taken.getsockname())
            assert await options
            writer.close()
            await writer.wait_closed()

    asyncio.run(asyncio.wait_for(work(), 30))
