"""Python client of Lockstep: rollouts and training steps whose log-probs agree in every bit.

Token ids go in and come out as numpy arrays; see Client, Run, Datum and TextCodec.
"""

from lockstep.async_client import AsyncClient
from lockstep.async_run import AsyncRun
from lockstep.calls import ParityOptions
from lockstep.client import Client
from lockstep.datum import Datum
from lockstep.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    LockstepError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from lockstep.generation import Delta, GenerateOptions, Rollouts, Sample
from lockstep.local_server import LocalServer
from lockstep.run import Run
from lockstep.sampling import FinishReason, SamplingParams, WeightsState, derive_seed
from lockstep.server import (
    ExportedModel,
    ModelInfo,
    ParityComparison,
    ParityReport,
    Scores,
    SequenceScore,
    ServerInfo,
)
from lockstep.text import TextCodec
from lockstep.token_stream import AsyncTokenStream, TokenStream
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    Loss,
    LossOptions,
    OptimMetrics,
    OptimStepResult,
    TokenMismatch,
    TrainMetrics,
    TrainStepResult,
)

__all__ = [
    "AbortedError",
    "AdamW",
    "AlreadyExistsError",
    "AsyncClient",
    "AsyncRun",
    "AsyncTokenStream",
    "CancelledError",
    "Client",
    "DataLossError",
    "Datum",
    "DeadlineExceededError",
    "Delta",
    "ExportedModel",
    "FailedPreconditionError",
    "FinishReason",
    "ForwardBackwardResult",
    "GenerateOptions",
    "InternalError",
    "InvalidArgumentError",
    "LocalServer",
    "LockstepError",
    "Loss",
    "LossOptions",
    "ModelInfo",
    "NotFoundError",
    "OptimMetrics",
    "OptimStepResult",
    "OutOfRangeError",
    "ParityComparison",
    "ParityOptions",
    "ParityReport",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "Rollouts",
    "Run",
    "Sample",
    "SamplingParams",
    "Scores",
    "SequenceScore",
    "ServerInfo",
    "TextCodec",
    "TokenMismatch",
    "TokenStream",
    "TrainMetrics",
    "TrainStepResult",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "WeightsState",
    "derive_seed",
]
