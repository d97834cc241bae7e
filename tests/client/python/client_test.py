"""Goal: each call sends what it was given, returns what was answered, and fails as its status code says."""

import grpc
import lockstep
import numpy as np
import pytest
from google.protobuf.message import Message
from lockstep.wire import config_pb2, generation_pb2, lockstep_pb2, training_pb2

from tests.client.python.fake_server import WEIGHTS, FakeServer, Refusal

NAN = float("nan")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, lockstep.InvalidArgumentError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, lockstep.ResourceExhaustedError),
        (grpc.StatusCode.FAILED_PRECONDITION, lockstep.FailedPreconditionError),
        (grpc.StatusCode.ALREADY_EXISTS, lockstep.AlreadyExistsError),
        (grpc.StatusCode.UNAVAILABLE, lockstep.UnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, lockstep.DeadlineExceededError),
        (grpc.StatusCode.CANCELLED, lockstep.CancelledError),
        (grpc.StatusCode.NOT_FOUND, lockstep.NotFoundError),
        (grpc.StatusCode.UNIMPLEMENTED, lockstep.UnimplementedError),
        (grpc.StatusCode.DATA_LOSS, lockstep.DataLossError),
        (grpc.StatusCode.ABORTED, lockstep.AbortedError),
        (grpc.StatusCode.INTERNAL, lockstep.InternalError),
        (grpc.StatusCode.OUT_OF_RANGE, lockstep.OutOfRangeError),
        (grpc.StatusCode.PERMISSION_DENIED, lockstep.PermissionDeniedError),
        (grpc.StatusCode.UNAUTHENTICATED, lockstep.UnauthenticatedError),
        (grpc.StatusCode.UNKNOWN, lockstep.LockstepError),
    ],
)
def test_errors_are_named_after_the_status_code(
    server: FakeServer,
    client: lockstep.Client,
    code: grpc.StatusCode,
    error: type[lockstep.LockstepError],
) -> None:
    def refuse(request: Message) -> Message:
        raise Refusal(code, "sequences[2].token_ids[1] is 259")

    server.answers = {"Score": refuse}
    with pytest.raises(lockstep.LockstepError) as caught:
        client.score([[1]])

    assert type(caught.value) is error
    assert caught.value.details == "sequences[2].token_ids[1] is 259"
    assert str(caught.value) == f"{code.name}: sequences[2].token_ids[1] is 259"


def test_a_call_past_its_timeout_fails(server: FakeServer) -> None:
    with (
        lockstep.Client(server.address, timeout=0.0) as client,
        pytest.raises(lockstep.DeadlineExceededError),
    ):
        client.info()


def test_no_server_is_told_by_name() -> None:
    with (
        lockstep.Client("127.0.0.1:1") as client,
        pytest.raises(TimeoutError, match=r"no server at 127\.0\.0\.1:1"),
    ):
        client.wait_until_ready(timeout=0.01)


def test_info(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "GetServerInfo": lambda request: lockstep_pb2.GetServerInfoResponse(
            server_version="0.1.0",
            model=lockstep_pb2.ModelInfo(vocab_size=259, eos_token_ids=[257, 258]),
            weights=WEIGHTS,
            weights_digest="0123456789abcdef0123456789abcdef",
            instruction_set="avx2",
            config=config_pb2.ServerConfig(stages=2, model="tiny"),
            config_sources={"stages": "flag"},
            kv_pages_total=512,
        )
    }
    info = client.info()

    assert info.model.vocab_size == 259
    assert info.model.eos_token_ids == (257, 258)
    assert info.weights.numerics_id == "fp32-v1-l1"
    assert info.weights_digest == "0123456789abcdef0123456789abcdef"
    assert info.config["stages"] == 2
    assert info.config["model"] == "tiny"
    assert info.config_sources == {"stages": "flag"}
    assert info.kv_pages_total == 512


def test_score(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "Score": lambda request: generation_pb2.ScoreResponse(
            scores=[
                generation_pb2.SequenceScore(
                    logprobs=[NAN, -0.5], raw_logprobs=[NAN, -0.25], entropies=[NAN, 1.5]
                ),
                generation_pb2.SequenceScore(logprobs=[NAN], raw_logprobs=[NAN], entropies=[NAN]),
            ],
            weights=WEIGHTS,
        )
    }
    scores = client.score([[1, 2], [3]], temperature=0.5)

    (request,) = server.requests
    assert [list(s.token_ids) for s in request.sequences] == [[1, 2], [3]]
    assert [s.sampling_params.temperature for s in request.sequences] == [0.5, 0.5]
    np.testing.assert_array_equal(scores.sequences[0].logprobs, np.float32([NAN, -0.5]))
    np.testing.assert_array_equal(scores.sequences[0].raw_logprobs, np.float32([NAN, -0.25]))
    np.testing.assert_array_equal(scores.sequences[0].entropies, np.float32([NAN, 1.5]))
    assert scores.sequences[1].logprobs.shape == (1,)
    assert scores.weights.weight_version == 3


def test_train_step(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "TrainStep": lambda request: training_pb2.TrainStepResponse(
            results=[training_pb2.DatumResult(logprobs=[NAN, -0.125])],
            metrics=training_pb2.TrainMetrics(
                loss=0.1,
                compared_tokens=5,
                mismatched_tokens=1,
                first_mismatch=training_pb2.TokenMismatch(
                    datum_index=0, position=1, expected_bits=0xBF800000, actual_bits=0xBF800001
                ),
            ),
            optim_metrics=training_pb2.OptimMetrics(grad_norm=2.5, loss_denominator=4),
            weights=WEIGHTS,
        )
    }
    result = client.train_step(
        [lockstep.Datum.from_text_pair([1, 2], [3])],
        run_id="r",
        seq_id=9,
        loss=lockstep.Loss("ppo", clip_high_threshold=1.5),
        loss_agg_mode="token-mean",
        adamw=lockstep.AdamW(learning_rate=0.5, weight_decay=0.25),
        micro_batch_size=3,
    )

    (request,) = server.requests
    assert (request.call.run_id, request.call.seq_id) == ("r", 9)
    assert request.loss.kind == training_pb2.LOSS_KIND_PPO
    assert request.loss.clip_high_threshold == 1.5
    assert not request.loss.HasField("clip_low_threshold")
    assert request.loss_agg_mode == training_pb2.LOSS_AGG_MODE_TOKEN_MEAN
    assert request.adamw.learning_rate == 0.5
    assert request.adamw.weight_decay == 0.25
    assert not request.adamw.HasField("beta1")
    assert request.micro_batch_size == 3
    np.testing.assert_array_equal(result.logprobs[0], np.float32([NAN, -0.125]))
    assert result.metrics.loss == 0.1
    assert result.metrics.first_mismatch == lockstep.TokenMismatch(0, 1, 0xBF800000, 0xBF800001)
    assert result.optim_metrics.grad_norm == 2.5
    assert result.optim_metrics.skipped is False


def test_metrics_without_a_mismatch_name_none(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "ForwardBackward": lambda request: training_pb2.ForwardBackwardResponse(weights=WEIGHTS)
    }
    result = client.forward_backward(
        [lockstep.Datum.from_text_pair([1], [2])], run_id="r", seq_id=1, loss="cross_entropy"
    )
    assert result.metrics.first_mismatch is None


@pytest.mark.parametrize(
    ("loss", "mode", "message"),
    [
        ("dpo", "token-sum", "loss is 'dpo'; known are cross_entropy, ppo"),
        ("ppo", "mean", "loss_agg_mode is 'mean'; known are token-sum, token-mean"),
    ],
)
def test_unknown_names_are_refused_before_a_call(
    server: FakeServer, client: lockstep.Client, loss: str, mode: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        client.forward_backward([], run_id="r", seq_id=1, loss=loss, loss_agg_mode=mode)
    assert server.requests == []


def test_check_parity(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "CheckParity": lambda request: lockstep_pb2.CheckParityResponse(
            passed=True,
            compared_tokens=64,
            comparisons=[
                lockstep_pb2.ParityComparison(name="score", compared_tokens=64, k3_kl=0.0)
            ],
            weights=WEIGHTS,
            weights_digest="ff",
        )
    }
    report = client.check_parity([[1, 2]], max_tokens=8, seed=0)

    (request,) = server.requests
    assert [list(p.token_ids) for p in request.prompts] == [[1, 2]]
    assert request.max_tokens == 8
    assert request.HasField("seed")
    assert not request.HasField("num_samples")
    assert report.passed
    assert report.comparisons[0].name == "score"
    assert report.comparisons[0].first_mismatch is None


def test_export_model(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "ExportModel": lambda request: lockstep_pb2.ExportModelResponse(
            path=f"/exports/{request.directory}", bytes=12, weights=WEIGHTS
        )
    }
    exported = client.export_model("after-rl")

    assert exported.path == "/exports/after-rl"
    assert exported.bytes == 12
