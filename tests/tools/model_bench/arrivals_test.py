"""Goal: the speed of decoding counts only steps in which every sample ran. Method: arrivals written by hand."""

import pytest
from model_bench.arrivals import Arrival, SteadySpan, steady_span


def arrivals(*steps: tuple[float, list[int]]) -> list[Arrival]:
    return [Arrival(sample, seconds) for seconds, samples in steps for sample in samples]


def test_one_sample_from_its_first_token_to_its_last() -> None:
    span = steady_span(arrivals((1.0, [0]), (2.0, [0]), (3.0, [0])), samples=1)
    assert span == SteadySpan(tokens=2, seconds=2.0)


def test_steps_with_only_some_of_the_samples_do_not_count() -> None:
    # Sample 1 starts two steps late; sample 0 ends two steps early.
    steps = arrivals((1, [0]), (2, [0]), (3, [0, 1]), (4, [0, 1]), (5, [0, 1]), (9, [1]), (99, [1]))
    assert steady_span(steps, samples=2) == SteadySpan(tokens=4, seconds=2.0)


def test_the_order_within_a_step_does_not_matter() -> None:
    # The deltas of one step are seen a moment apart.
    steps = arrivals((1.0, [0]), (1.1, [1]), (2.0, [0]), (2.1, [1]), (3.0, [0]), (3.1, [1]))
    span = steady_span(steps, samples=2)
    assert span.tokens / span.seconds == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (arrivals((1, [0]), (2, [0])), "no token"),
        (arrivals((1, [0]), (2, [0]), (3, [1]), (4, [1])), "never ran all"),
    ],
)
def test_no_such_span_is_an_error(steps: list[Arrival], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        steady_span(steps, samples=2)
