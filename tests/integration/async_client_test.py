"""Goal: the asyncio client against the real server: one event loop's requests get the bits that quiet, blocking ones get.

Method: the blocking client asks every request at every state of the weights, on a server that does nothing else. On a
second server, over the same model, one event loop asks the same requests all at once while the same steps train; each
answer names the state it was drawn under, and is compared with the blocking one of that state.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lockstep
import numpy as np

STEP_COUNT = 3
REQUEST_COUNT = 32
ADAMW = lockstep.AdamW(learning_rate=1e-2)
DATA = [lockstep.Datum.from_text_pair([256, 49 + i, 61], [50 + i, 257]) for i in range(8)]
CONTEXT_LENGTH_MAX = 512  # of the tiny model

# By the state of the weights: the answer to each request.
Expected = dict[bytes, list[lockstep.Rollouts]]


def request(index: int) -> tuple[list[int], dict[str, Any]]:
    """Prompt and options: lengths of 1 to 62 and 4 to 128, several samples, several ways to draw."""
    return [256, *range(2 * index)], {
        "max_tokens": 4 * (REQUEST_COUNT - index),
        "num_samples": 1 + index % 3,
        "seed": lockstep.derive_seed(11, index),
        "sampling": lockstep.SamplingParams(temperature=0.5 + index / 32, top_k=40 * (index % 2)),
        "ignore_eos": index % 4 == 0,
    }


def ask_quietly(server: lockstep.LocalServer) -> Expected:
    expected: Expected = {}
    with server.client(timeout=120) as client, client.run("the run") as run:
        for step in range(STEP_COUNT + 1):
            if step > 0:
                run.train_step(DATA, loss="cross_entropy", adamw=ADAMW)
            answers = []
            for index in range(REQUEST_COUNT):
                prompt, options = request(index)
                answers.append(client.generate(prompt, **options))
            expected[answers[0].weights.state_id] = answers
    return expected


async def ask_at_once(address: str) -> list[lockstep.Rollouts]:
    """The answers to every request, asked anew beside each step; request index: i % REQUEST_COUNT."""
    answers: list[lockstep.Rollouts] = []
    async with lockstep.AsyncClient(address, timeout=120) as client, client.run("the run") as run:
        for _ in range(STEP_COUNT):
            async with asyncio.TaskGroup() as group:
                asked = []
                for index in range(REQUEST_COUNT):
                    prompt, options = request(index)
                    asked.append(group.create_task(client.generate(prompt, **options)))
                group.create_task(run.train_step(DATA, loss="cross_entropy", adamw=ADAMW))
            answers += [task.result() for task in asked]
    return answers


def differing(answers: list[lockstep.Rollouts], expected: Expected) -> list[int]:
    """Indices of answers that are not, bit for bit, those expected at the state they name."""
    return [
        i
        for i, answer in enumerate(answers)
        if contents(answer) != contents(expected[answer.weights.state_id][i % REQUEST_COUNT])
    ]


def contents(rollouts: lockstep.Rollouts) -> list[tuple[object, ...]]:
    return [
        (
            sample.tokens.tolist(),
            sample.logprobs.tobytes(),
            sample.raw_logprobs.tobytes(),
            sample.finish_reason,
            sample.stop_token_id,
        )
        for sample in rollouts.samples
    ]


def test_requests_of_one_event_loop_get_the_bits_of_quiet_ones_while_steps_run(
    start_server: Callable[..., lockstep.LocalServer],
) -> None:
    expected = ask_quietly(start_server())
    assert len(expected) == STEP_COUNT + 1
    answers = asyncio.run(ask_at_once(start_server().address))
    assert len(answers) == STEP_COUNT * REQUEST_COUNT
    assert differing(answers, expected) == []

    # The comparison can fail: by one bit of one log-prob, and by weights of another state.
    sample = answers[37].samples[0]
    logprobs = sample.logprobs.copy()
    logprobs[-1] = np.nextafter(logprobs[-1], np.float32(-np.inf))
    planted = replace(answers[37], samples=[replace(sample, logprobs=logprobs)])
    planted.samples.extend(answers[37].samples[1:])
    assert differing(answers[:37] + [planted] + answers[38:], expected) == [37]
    first, second, *_ = expected.values()
    others = [replace(answer, weights=first[0].weights) for answer in second]
    assert differing(others, expected) == list(range(REQUEST_COUNT))


def held(info: lockstep.ServerInfo) -> int:
    return info.running_sequences + info.queued_requests + info.kv_pages_in_use


def test_leaving_streams_frees_what_they_held(
    start_server: Callable[..., lockstep.LocalServer],
) -> None:
    async def check(address: str) -> None:
        async with lockstep.AsyncClient(address, timeout=120) as client:
            # Millions of tokens, one sequence at a time: it ends in time only by being cancelled.
            # Kept, or the streams would be cancelled by being forgotten.
            streams = []
            async with asyncio.timeout(60):
                for _ in range(8):
                    async with client.stream(
                        [256],
                        num_samples=1024,
                        max_tokens=CONTEXT_LENGTH_MAX - 1,
                        ignore_eos=True,
                    ) as stream:
                        streams.append(stream)
                        await anext(stream)
                        assert held(await client.info()) > 0
                # Cancellation travels; each look is a round trip.
                while held(await client.info()) > 0:
                    pass
            rollouts = await client.generate([256], max_tokens=4, ignore_eos=True)
            assert len(rollouts.samples[0].tokens) == 4

    asyncio.run(check(start_server(running_sequences_max=1).address))


def test_a_step_whose_task_is_cancelled_is_applied_once(
    start_server: Callable[..., lockstep.LocalServer],
) -> None:
    async def check(address: str) -> None:
        async with lockstep.AsyncClient(address, timeout=120) as client, client.run() as run:
            before = await client.info()
            task = asyncio.create_task(run.train_step(DATA, loss="cross_entropy", adamw=ADAMW))
            # It may be cancelled before, while or after the server trains: the end is the same.
            await client.info()
            task.cancel()
            await asyncio.wait([task])
            if run.next_seq_id == 1:
                await run.train_step(DATA, loss="cross_entropy", adamw=ADAMW)
            assert run.next_seq_id == 2
            after = await client.info()
            assert after.weights.weight_version == before.weights.weight_version + 1

    asyncio.run(check(start_server().address))
