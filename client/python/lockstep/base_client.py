"""What the two clients share: the channel's options, and how a call is begun on it."""

from __future__ import annotations

import itertools
from typing import Any

import grpc

from lockstep.calls import Call
from lockstep.generation import Generation
from lockstep.wire import lockstep_pb2_grpc

# What the server takes unless told otherwise (ServerConfig.message_size_max_mib).
MESSAGE_SIZE_MAX_MIB = 256


def channel_options(message_size_max_mib: int) -> list[tuple[str, int]]:
    size = message_size_max_mib * 1024 * 1024
    return [
        ("grpc.max_send_message_length", size),
        ("grpc.max_receive_message_length", size),
        # A second attempt is the business of those who know what may be repeated: Run.
        ("grpc.enable_retries", 0),
    ]


class BaseClient:
    """Begins calls on a channel of grpc or of grpc.aio; what it returns is that library's call.

    `timeout` is the deadline of a call in seconds, for methods that are not given their own; None
    waits for ever.
    """

    def __init__(
        self, channel: grpc.Channel | grpc.aio.Channel, address: str, timeout: float | None
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._stub = lockstep_pb2_grpc.LockstepStub(channel)
        self._request_numbers = itertools.count(1)

    def _begin(self, call: Call[Any], timeout: float | None) -> Any:  # noqa: ANN401
        method = getattr(self._stub, call.method)
        return method(call.request, timeout=self._deadline(timeout))

    def _begin_generate(self, asked: Generation, timeout: float | None) -> Any:  # noqa: ANN401
        request = asked.to_wire(request_id=f"py-{next(self._request_numbers)}")
        return self._stub.Generate(request, timeout=self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> float | None:
        return self.timeout if timeout is None else timeout
