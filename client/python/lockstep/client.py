"""The client: one channel, one method per call of lockstep.v1."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, Unpack

import grpc

from lockstep import calls
from lockstep.arrays import TokenIds
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
from lockstep.run import Run
from lockstep.server import ExportedModel, ParityReport, Scores, ServerInfo
from lockstep.token_stream import TokenStream
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    LossOptions,
    OptimStepResult,
    TrainStepResult,
)


class Client(BaseClient):
    """A connection to one server, and a context manager that closes it. Thread safe.

    `timeout` is the deadline of a call in seconds, for methods that are not given their own; None
    waits for ever. A call that fails raises the LockstepError named after its status code.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = 600.0,
        message_size_max_mib: int = MESSAGE_SIZE_MAX_MIB,
    ) -> None:
        self._channel = grpc.insecure_channel(
            address, options=channel_options(message_size_max_mib)
        )
        super().__init__(self._channel, address, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancels what is running and closes the channel."""
        self._channel.close()

    def wait_until_ready(self, timeout: float) -> None:
        """Returns once the server accepts calls; TimeoutError after `timeout` seconds."""
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"no server at {self.address} within {timeout} s") from None

    def info(self, *, timeout: float | None = None) -> ServerInfo:
        """What is served and how; never waits for a training step."""
        return self._call(calls.info(), timeout)

    def run(self, run_id: str | None = None, *, next_seq_id: int = 1) -> Run:
        """A run: the calls that change weights, in order. `run_id` None: a fresh one."""
        return Run(self, run_id, next_seq_id=next_seq_id)

    # Generation.

    def stream(
        self,
        prompt: TokenIds,
        *,
        timeout: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> TokenStream:
        """Tokens of `num_samples` continuations as they are drawn; options: GenerateOptions.

        Closing the iterator cancels the call.
        """
        return self._stream(Generation(prompt, **options), timeout)

    def generate(
        self,
        prompt: TokenIds,
        *,
        timeout: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Rollouts:
        """Finished continuations of one prompt; options: GenerateOptions."""
        return self._generate(Generation(prompt, **options), timeout)

    def generate_many(
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
        `concurrency` requests are open at one time. The first failure is raised once the open
        requests have ended; no more are begun.
        """
        all_asked = generations(prompts, **options)
        failures: list[BaseException] = []

        def generate_one(asked: Generation) -> Rollouts:
            # This thread may be at its next request before the caller hears of a failure.
            if failures:
                raise failures[0]
            try:
                rollouts = self._generate(asked, timeout)
            except BaseException as error:
                failures.append(error)
                raise
            bar.advance()
            return rollouts

        with (
            ProgressBar("generate", len(all_asked), shown=progress) as bar,
            ThreadPoolExecutor(max_workers=max(1, min(concurrency, len(all_asked)))) as pool,
        ):
            futures = [pool.submit(generate_one, asked) for asked in all_asked]
            try:
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()

    def score(
        self,
        sequences: Sequence[TokenIds],
        *,
        temperature: float | None = None,
        timeout: float | None = None,
    ) -> Scores:
        """Log-probs of given sequences under the current weights."""
        return self._call(calls.score(sequences, temperature), timeout)

    # Training. One attempt under a number that the caller keeps; Run keeps it for you.

    def forward_backward(
        self,
        data: Sequence[Datum],
        *,
        run_id: str,
        seq_id: int,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> ForwardBackwardResult:
        """Adds the gradients of `loss` over `data` to those of the unfinished step."""
        return self._call(calls.forward_backward(data, run_id, seq_id, **options), timeout)

    def optim_step(
        self, *, run_id: str, seq_id: int, adamw: AdamW, timeout: float | None = None
    ) -> OptimStepResult:
        """Applies AdamW to the gathered gradients and clears them."""
        return self._call(calls.optim_step(run_id, seq_id, adamw), timeout)

    def train_step(
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
        return self._call(calls.train_step(data, run_id, seq_id, adamw, **options), timeout)

    # Checks and files.

    def check_parity(
        self,
        prompts: Sequence[TokenIds] = (),
        *,
        timeout: float | None = None,
        **options: Unpack[calls.ParityOptions],
    ) -> ParityReport:
        """Generates, runs every other path over the same tokens, and compares bits.

        Without `prompts`, `num_prompts` are drawn from the seed.
        """
        return self._call(calls.check_parity(prompts, **options), timeout)

    def export_model(self, directory: str, *, timeout: float | None = None) -> ExportedModel:
        """Writes the weights as a Hugging Face directory below the server's --export_root."""
        return self._call(calls.export_model(directory), timeout)

    def _call(self, call: calls.Call[calls.Answer], timeout: float | None) -> calls.Answer:
        with raising_lockstep_errors():
            answer = self._begin(call, timeout)
        return call.read(answer)

    def _stream(self, asked: Generation, timeout: float | None) -> TokenStream:
        return TokenStream(self._begin_generate(asked, timeout))

    def _generate(self, asked: Generation, timeout: float | None) -> Rollouts:
        builder = RolloutBuilder(asked)
        with self._stream(asked, timeout) as stream:
            for delta in stream:
                builder.add(delta)
        return builder.finish(stream.seed_used, stream.weights)
