"""Exceptions named after the gRPC status code that a call ended with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc


class LockstepError(Exception):
    """A call that did not succeed: `details` is the server's message, `code` the gRPC status."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, details: str) -> None:
        super().__init__(details)
        self.details = details

    def __str__(self) -> str:
        return f"{self.code.name}: {self.details}"


class InvalidArgumentError(LockstepError, ValueError):
    """The request is wrong; the message names field, index and value. Nothing was changed."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class ResourceExhaustedError(LockstepError):
    """A limit is in use up; the message names it."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPreconditionError(LockstepError):
    """The server is in the wrong state for the call; the message names the state."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class AlreadyExistsError(LockstepError):
    """The (run_id, seq_id) was used with another payload, or the thing to make is there."""

    code = grpc.StatusCode.ALREADY_EXISTS


class UnavailableError(LockstepError, ConnectionError):
    """The server cannot be reached, or is stopping."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceededError(LockstepError, TimeoutError):
    """The call's timeout ran out. A mutating call may have been applied all the same: see Run."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledError(LockstepError):
    """The call was cancelled."""

    code = grpc.StatusCode.CANCELLED


class NotFoundError(LockstepError):
    """What the request names does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class UnimplementedError(LockstepError, NotImplementedError):
    """This server does not know the call, or lacks what it asks for."""

    code = grpc.StatusCode.UNIMPLEMENTED


class DataLossError(LockstepError):
    """Stored data is damaged; the message names it."""

    code = grpc.StatusCode.DATA_LOSS


class AbortedError(LockstepError):
    """The server gave the call up part-way."""

    code = grpc.StatusCode.ABORTED


class InternalError(LockstepError):
    """A fault of the server itself."""

    code = grpc.StatusCode.INTERNAL


class OutOfRangeError(LockstepError, IndexError):
    """Past the end of something."""

    code = grpc.StatusCode.OUT_OF_RANGE


class PermissionDeniedError(LockstepError, PermissionError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class UnauthenticatedError(LockstepError, PermissionError):
    """The caller did not say who it is."""

    code = grpc.StatusCode.UNAUTHENTICATED


_BY_CODE: dict[grpc.StatusCode, type[LockstepError]] = {
    error.code: error for error in LockstepError.__subclasses__()
}


def error_from_rpc(error: grpc.RpcError) -> LockstepError:
    """The exception of a failed call: grpc's RpcError is also a Call, grpc.aio's is AioRpcError."""
    if isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return _BY_CODE.get(error.code(), LockstepError)(error.details() or "")
    return LockstepError(str(error))


@contextmanager
def raising_lockstep_errors() -> Iterator[None]:
    """Turns grpc.RpcError into the LockstepError of its code."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_from_rpc(error) from error
    except asyncio.CancelledError as error:
        # grpc.aio also raises this when the call was cancelled and not the task: by closing the
        # client or the stream under it.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CancelledError("the client or the stream was closed") from error
