"""Python client of Lockstep: rollouts and training steps whose log-probs agree in every bit.

Token ids go in and come out as numpy arrays; see Client, Run, Datum and TextCodec.
"""

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
from lockstep.generation import Delta, Rollouts, Sample, TokenStream
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
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    Loss,
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
    "InternalError",
    "InvalidArgumentError",
    "LocalServer",
    "LockstepError",
    "Loss",
    "ModelInfo",
    "NotFoundError",
    "OptimMetrics",
    "OptimStepResult",
    "OutOfRangeError",
    "ParityComparison",
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
