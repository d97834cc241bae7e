"""The client: one channel, one method per call of lockstep.v1."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import grpc

from lockstep.arrays import TokenIds, token_array
from lockstep.datum import Datum
from lockstep.errors import raising_lockstep_errors
from lockstep.generation import Rollouts, TokenStream, gather, generate_request
from lockstep.progress import ProgressBar
from lockstep.run import Run
from lockstep.sampling import SamplingParams, derive_seed
from lockstep.server import ExportedModel, ParityReport, Scores, ServerInfo
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    Loss,
    OptimStepResult,
    TrainStepResult,
    loss_agg_mode_to_wire,
    loss_to_wire,
)
from lockstep.wire import generation_pb2, lockstep_pb2, lockstep_pb2_grpc, training_pb2

# What the server takes unless told otherwise (ServerConfig.message_size_max_mib).
MESSAGE_SIZE_MAX_MIB = 256


class Client:
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
        size = message_size_max_mib * 1024 * 1024
        self.address = address
        self.timeout = timeout
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_send_message_length", size),
                ("grpc.max_receive_message_length", size),
                # A second attempt is the business of those who know what may be repeated: Run.
                ("grpc.enable_retries", 0),
            ],
        )
        self._stub = lockstep_pb2_grpc.LockstepStub(self._channel)
        self._request_numbers = itertools.count(1)

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
        with raising_lockstep_errors():
            request = lockstep_pb2.GetServerInfoRequest()
            answer = self._stub.GetServerInfo(request, timeout=self._deadline(timeout))
        return ServerInfo.from_wire(answer)

    def run(self, run_id: str | None = None, *, next_seq_id: int = 1) -> Run:
        """A run: the calls that change weights, in order. `run_id` None: a fresh one."""
        return Run(self, run_id, next_seq_id=next_seq_id)

    # Generation.

    def stream(
        self,
        prompt: TokenIds,
        *,
        sampling: SamplingParams | None = None,
        num_samples: int = 1,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop_token_ids: TokenIds = (),
        ignore_eos: bool = False,
        timeout: float | None = None,
    ) -> TokenStream:
        """Tokens of `num_samples` continuations as they are drawn.

        Closing the iterator cancels the call. `max_tokens` None: the server's default, 16. `seed`
        None: a fresh one, told by the stream's `seed_used`.
        """
        request = generate_request(
            prompt,
            sampling or SamplingParams(),
            num_samples=num_samples,
            max_tokens=max_tokens,
            seed=seed,
            stop_token_ids=stop_token_ids,
            ignore_eos=ignore_eos,
            request_id=f"py-{next(self._request_numbers)}",
        )
        return TokenStream(self._stub.Generate(request, timeout=self._deadline(timeout)))

    def generate(
        self,
        prompt: TokenIds,
        *,
        sampling: SamplingParams | None = None,
        num_samples: int = 1,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop_token_ids: TokenIds = (),
        ignore_eos: bool = False,
        timeout: float | None = None,
    ) -> Rollouts:
        """Finished continuations of one prompt; arguments as for stream()."""
        sampling = sampling or SamplingParams()
        stream = self.stream(
            prompt,
            sampling=sampling,
            num_samples=num_samples,
            max_tokens=max_tokens,
            seed=seed,
            stop_token_ids=stop_token_ids,
            ignore_eos=ignore_eos,
            timeout=timeout,
        )
        return gather(stream, prompt, sampling, num_samples)

    def generate_many(
        self,
        prompts: Sequence[TokenIds],
        *,
        sampling: SamplingParams | None = None,
        num_samples: int = 1,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop_token_ids: TokenIds = (),
        ignore_eos: bool = False,
        timeout: float | None = None,
        concurrency: int = 32,
        progress: bool = False,
    ) -> list[Rollouts]:
        """Finished continuations of many prompts, in the prompts' order whichever ends first.

        Prompt i is drawn with derive_seed(seed, i), so equal prompts get different samples. At most
        `concurrency` requests are open at one time. The first failure is raised once the open
        requests have ended; no more are begun.
        """

        def generate_one(index: int) -> Rollouts:
            rollouts = self.generate(
                prompts[index],
                sampling=sampling,
                num_samples=num_samples,
                max_tokens=max_tokens,
                seed=None if seed is None else derive_seed(seed, index),
                stop_token_ids=stop_token_ids,
                ignore_eos=ignore_eos,
                timeout=timeout,
            )
            bar.advance()
            return rollouts

        with (
            ProgressBar("generate", len(prompts), shown=progress) as bar,
            ThreadPoolExecutor(max_workers=max(1, min(concurrency, len(prompts)))) as pool,
        ):
            futures = [pool.submit(generate_one, index) for index in range(len(prompts))]
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
        sampling = SamplingParams(temperature=temperature).to_wire()
        request = generation_pb2.ScoreRequest(
            sequences=[
                generation_pb2.ScoreSequence(
                    token_ids=token_array(sequence, f"sequences[{index}]").tolist(),
                    sampling_params=sampling,
                )
                for index, sequence in enumerate(sequences)
            ]
        )
        with raising_lockstep_errors():
            answer = self._stub.Score(request, timeout=self._deadline(timeout))
        return Scores.from_wire(answer)

    # Training. One attempt under a number that the caller keeps; Run keeps it for you.

    def forward_backward(
        self,
        data: Sequence[Datum],
        *,
        run_id: str,
        seq_id: int,
        loss: Loss | str,
        loss_agg_mode: str = "token-sum",
        micro_batch_size: int = 0,
        timeout: float | None = None,
    ) -> ForwardBackwardResult:
        """Adds the gradients of `loss` over `data` to those of the unfinished step."""
        request = training_pb2.ForwardBackwardRequest(
            call=training_pb2.CallId(run_id=run_id, seq_id=seq_id),
            data=[datum.to_wire() for datum in data],
            loss=loss_to_wire(loss),
            loss_agg_mode=loss_agg_mode_to_wire(loss_agg_mode),
            micro_batch_size=micro_batch_size,
        )
        with raising_lockstep_errors():
            answer = self._stub.ForwardBackward(request, timeout=self._deadline(timeout))
        return ForwardBackwardResult.from_wire(answer)

    def optim_step(
        self, *, run_id: str, seq_id: int, adamw: AdamW, timeout: float | None = None
    ) -> OptimStepResult:
        """Applies AdamW to the gathered gradients and clears them."""
        request = training_pb2.OptimStepRequest(
            call=training_pb2.CallId(run_id=run_id, seq_id=seq_id), adamw=adamw.to_wire()
        )
        with raising_lockstep_errors():
            answer = self._stub.OptimStep(request, timeout=self._deadline(timeout))
        return OptimStepResult.from_wire(answer)

    def train_step(
        self,
        data: Sequence[Datum],
        *,
        run_id: str,
        seq_id: int,
        loss: Loss | str,
        adamw: AdamW,
        loss_agg_mode: str = "token-sum",
        micro_batch_size: int = 0,
        timeout: float | None = None,
    ) -> TrainStepResult:
        """forward_backward and optim_step in one call."""
        request = training_pb2.TrainStepRequest(
            call=training_pb2.CallId(run_id=run_id, seq_id=seq_id),
            data=[datum.to_wire() for datum in data],
            loss=loss_to_wire(loss),
            loss_agg_mode=loss_agg_mode_to_wire(loss_agg_mode),
            adamw=adamw.to_wire(),
            micro_batch_size=micro_batch_size,
        )
        with raising_lockstep_errors():
            answer = self._stub.TrainStep(request, timeout=self._deadline(timeout))
        return TrainStepResult.from_wire(answer)

    # Checks and files.

    def check_parity(
        self,
        prompts: Sequence[TokenIds] = (),
        *,
        num_prompts: int | None = None,
        num_samples: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        timeout: float | None = None,
    ) -> ParityReport:
        """Generates, runs every other path over the same tokens, and compares bits.

        Without `prompts`, `num_prompts` are drawn from the seed.
        """
        request = lockstep_pb2.CheckParityRequest(
            prompts=[
                lockstep_pb2.TokenList(token_ids=token_array(p, f"prompts[{index}]").tolist())
                for index, p in enumerate(prompts)
            ],
            num_prompts=num_prompts,
            num_samples=num_samples,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
        )
        with raising_lockstep_errors():
            answer = self._stub.CheckParity(request, timeout=self._deadline(timeout))
        return ParityReport.from_wire(answer)

    def export_model(self, directory: str, *, timeout: float | None = None) -> ExportedModel:
        """Writes the weights as a Hugging Face directory below the server's --export_root."""
        request = lockstep_pb2.ExportModelRequest(directory=directory)
        with raising_lockstep_errors():
            answer = self._stub.ExportModel(request, timeout=self._deadline(timeout))
        return ExportedModel.from_wire(answer)

    def _deadline(self, timeout: float | None) -> float | None:
        return self.timeout if timeout is None else timeout
