"""The calls of lockstep.v1 that have one answer: what is sent, and how the answer is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from google.protobuf.message import Message

from lockstep.arrays import TokenIds, token_array
from lockstep.datum import Datum
from lockstep.sampling import SamplingParams
from lockstep.server import ExportedModel, ParityReport, Scores, ServerInfo
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    LossOptions,
    OptimStepResult,
    TrainStepResult,
    loss_fields,
)
from lockstep.wire import generation_pb2, lockstep_pb2, training_pb2

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A call ready to be made, by whichever client."""

    method: str  # its name in the service
    request: Message
    read: Callable[[Any], Answer]  # of the answering message


class ParityOptions(TypedDict, total=False):
    """What check_parity() may be told beside the prompts; what is left out the server chooses."""

    num_prompts: int | None  # drawn from the seed, when no prompts are given
    num_samples: int | None  # of each prompt
    max_tokens: int | None  # of each sample
    temperature: float | None
    seed: int | None


def info() -> Call[ServerInfo]:
    return Call("GetServerInfo", lockstep_pb2.GetServerInfoRequest(), ServerInfo.from_wire)


def score(sequences: Sequence[TokenIds], temperature: float | None) -> Call[Scores]:
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
    return Call("Score", request, Scores.from_wire)


def forward_backward(
    data: Sequence[Datum], run_id: str, seq_id: int, **options: Unpack[LossOptions]
) -> Call[ForwardBackwardResult]:
    request = training_pb2.ForwardBackwardRequest(
        call=training_pb2.CallId(run_id=run_id, seq_id=seq_id),
        data=[datum.to_wire() for datum in data],
        **loss_fields(**options),
    )
    return Call("ForwardBackward", request, ForwardBackwardResult.from_wire)


def optim_step(run_id: str, seq_id: int, adamw: AdamW) -> Call[OptimStepResult]:
    request = training_pb2.OptimStepRequest(
        call=training_pb2.CallId(run_id=run_id, seq_id=seq_id), adamw=adamw.to_wire()
    )
    return Call("OptimStep", request, OptimStepResult.from_wire)


def train_step(
    data: Sequence[Datum], run_id: str, seq_id: int, adamw: AdamW, **options: Unpack[LossOptions]
) -> Call[TrainStepResult]:
    request = training_pb2.TrainStepRequest(
        call=training_pb2.CallId(run_id=run_id, seq_id=seq_id),
        data=[datum.to_wire() for datum in data],
        adamw=adamw.to_wire(),
        **loss_fields(**options),
    )
    return Call("TrainStep", request, TrainStepResult.from_wire)


def check_parity(
    prompts: Sequence[TokenIds], **options: Unpack[ParityOptions]
) -> Call[ParityReport]:
    token_lists = [
        lockstep_pb2.TokenList(token_ids=token_array(prompt, f"prompts[{index}]").tolist())
        for index, prompt in enumerate(prompts)
    ]
    request = lockstep_pb2.CheckParityRequest(prompts=token_lists, **options)
    return Call("CheckParity", request, ParityReport.from_wire)


def export_model(directory: str) -> Call[ExportedModel]:
    request = lockstep_pb2.ExportModelRequest(directory=directory)
    return Call("ExportModel", request, ExportedModel.from_wire)
