"""The client for asyncio: Client's methods as coroutines, over grpc.aio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

import grpc

from lockstep import calls
from lockstep.arrays import TokenIds
from lockstep.async_run import AsyncRun
from lockstep.base_client import MESSAGE_SIZE_MAX_MIB, BaseClient, channel_options
from lockstep.datum import Datum
from lockstep.errors import raising_lockstep_errors
from lockstep.generation import (
    CONCURRENCY_DEFAULT,
    GenerateOptions,
    Generation,
    RolloutBuilder,
    Rollouts,
    generations,
)
from lockstep.progress import ProgressBar
from lockstep.server import ExportedModel, ParityReport, Scores, ServerInfo
from lockstep.token_stream import AsyncTokenStream
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    LossOptions,
    OptimStepResult,
    TrainStepResult,
)


class AsyncClient(BaseClient):
    """A connection to one server, and an async context manager that closes it.

    Made and used in one event loop, by any number of its tasks. Arguments, answers and errors are
    Client's. Cancelling a task cancels its call: what it generated is freed, but a training step
    that has reached the server goes on there, as after a deadline (see AsyncRun).
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = 600.0,
        message_size_max_mib: int = MESSAGE_SIZE_MAX_MIB,
    ) -> None:
        # The channel would tie itself to a loop that nobody runs.
        asyncio.get_running_loop()
        self._channel = grpc.aio.insecure_channel(
            address, options=channel_options(message_size_max_mib)
        )
        super().__init__(self._channel, address, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels what is running and closes the channel."""
        await self._channel.close()

    async def wait_until_ready(self, timeout: float) -> None:
        """Returns once the server accepts calls; TimeoutError after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._channel.channel_ready()
        except TimeoutError:
            raise TimeoutError(f"no server at {self.address} within {timeout} s") from None

    async def info(self, *, timeout: float | None = None) -> ServerInfo:
        """What is served and how; never waits for a training step."""
        return await self._call(calls.info(), timeout)

    def run(self, run_id: str | None = None, *, next_seq_id: int = 1) -> AsyncRun:
        """A run: the calls that change weights, in order. `run_id` None: a fresh one."""
        return AsyncRun(self, run_id, next_seq_id=next_seq_id)

    # Generation.

    def stream(
        self,
        prompt: TokenIds,
        *,
        timeout: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> AsyncTokenStream:
        """Tokens of `num_samples` continuations as they are drawn; options: GenerateOptions.

        Leaving the stream's `async with` block cancels the call.
        """
        return self._stream(Generation(prompt, **options), timeout)

    async def generate(
        self,
        prompt: TokenIds,
        *,
        timeout: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Rollouts:
        """Finished continuations of one prompt; options: GenerateOptions."""
        return await self._generate(Generation(prompt, **options), timeout)

    async def generate_many(
        self,
        prompts: Sequence[TokenIds],
        *,
        timeout: float | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        progress: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> list[Rollouts]:
        """Finished continuations of many prompts, in the prompts' order whichever ends first.

        Prompt i is drawn with derive_seed(seed, i), so equal prompts get different samples. At most
        `concurrency` requests are open at one time. The first failure cancels the open requests
        and is raised; no more are begun.
        """
        all_asked = generations(prompts, **options)
        waiting = iter(enumerate(all_asked))
        answers: dict[int, Rollouts] = {}

        async def take_from_waiting() -> None:
            for index, asked in waiting:
                answers[index] = await self._generate(asked, timeout)
                bar.advance()

        try:
            with ProgressBar("generate", len(all_asked), shown=progress) as bar:
                async with asyncio.TaskGroup() as group:
                    for _ in range(max(1, min(concurrency, len(all_asked)))):
                        group.create_task(take_from_waiting())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [answers[index] for index in range(len(all_asked))]

    async def score(
        self,
        sequences: Sequence[TokenIds],
        *,
        temperature: float | None = None,
        timeout: float | None = None,
    ) -> Scores:
        """Log-probs of given sequences under the current weights."""
        return await self._call(calls.score(sequences, temperature), timeout)

    # Training. One attempt under a number that the caller keeps; AsyncRun keeps it for you.

    async def forward_backward(
        self,
        data: Sequence[Datum],
        *,
        run_id: str,
        seq_id: int,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> ForwardBackwardResult:
        """Adds the gradients of `loss` over `data` to those of the unfinished step."""
        return await self._call(calls.forward_backward(data, run_id, seq_id, **options), timeout)

    async def optim_step(
        self, *, run_id: str, seq_id: int, adamw: AdamW, timeout: float | None = None
    ) -> OptimStepResult:
        """Applies AdamW to the gathered gradients and clears them."""
        return await self._call(calls.optim_step(run_id, seq_id, adamw), timeout)

    async def train_step(
        self,
        data: Sequence[Datum],
        *,
        run_id: str,
        seq_id: int,
        adamw: AdamW,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> TrainStepResult:
        """forward_backward and optim_step in one call."""
        return await self._call(calls.train_step(data, run_id, seq_id, adamw, **options), timeout)

    # Checks and files.

    async def check_parity(
        self,
        prompts: Sequence[TokenIds] = (),
        *,
        timeout: float | None = None,
        **options: Unpack[calls.ParityOptions],
    ) -> ParityReport:
        """Generates, runs every other path over the same tokens, and compares bits.

        Without `prompts`, `num_prompts` are drawn from the seed.
        """
        return await self._call(calls.check_parity(prompts, **options), timeout)

    async def export_model(self, directory: str, *, timeout: float | None = None) -> ExportedModel:
        """Writes the weights as a Hugging Face directory below the server's --export_root."""
        return await self._call(calls.export_model(directory), timeout)

    async def _call(self, call: calls.Call[calls.Answer], timeout: float | None) -> calls.Answer:
        with raising_lockstep_errors():
            answer = await self._begin(call, timeout)
        return call.read(answer)

    def _stream(self, asked: Generation, timeout: float | None) -> AsyncTokenStream:
        return AsyncTokenStream(self._begin_generate(asked, timeout))

    async def _generate(self, asked: Generation, timeout: float | None) -> Rollouts:
        builder = RolloutBuilder(asked)
        async with self._stream(asked, timeout) as stream:
            async for delta in stream:
                builder.add(delta)
        return builder.finish(stream.seed_used, stream.weights)
