"""Goal: the split and the order of problems follow from their hashes alone, and the reward is exact match."""

import numpy as np
import pytest
from addition_rl.problems import ANSWER_TOKENS_MAX, EOS, Problem, ProblemStream, split_problems


def test_bytes_of_a_problem() -> None:
    problem = Problem(7, 35)

    assert problem.prompt.tolist() == [256, *b"07+35="]
    assert problem.answer.tolist() == [*b"042", 257]
    assert len(Problem(99, 99).answer) == ANSWER_TOKENS_MAX


def test_split_is_disjoint_complete_and_near_its_share() -> None:
    training, held_out = split_problems()

    assert len(training) + len(held_out) == 10_000
    assert not set(training) & set(held_out)
    # Binomial(10000, 26/256): a standard deviation of 30 around 1016.
    assert len(held_out) == 1004
    # Frozen: numbers published for one split cannot be compared with those of another.
    assert held_out[:3] == [Problem(0, 10), Problem(0, 13), Problem(0, 14)]


@pytest.mark.parametrize(
    ("tokens", "reward"),
    [
        ([*b"042", EOS], 1.0),
        ([*b"043", EOS], 0.0),
        ([*b"042"], 0.0),
        ([*b"42", EOS], 0.0),
        ([*b"042", EOS, EOS], 0.0),
        ([EOS], 0.0),
    ],
)
def test_reward_is_exact_match(tokens: list[int], reward: float) -> None:
    assert Problem(7, 35).reward(np.array(tokens, np.int32)) == reward


def test_stream_holds_each_problem_once_an_epoch() -> None:
    training, _ = split_problems()
    problems = training[:100]
    stream = ProblemStream(problems, seed=5)
    epochs = [stream.take(60) + stream.take(40) for _ in range(2)]

    for epoch in epochs:
        assert sorted(epoch, key=problems.index) == problems
    assert epochs[0] != epochs[1]


def test_stream_does_not_depend_on_how_it_is_taken() -> None:
    training, _ = split_problems()
    problems = training[:50]
    at_once = ProblemStream(problems, seed=5).take(120)
    piecewise_stream = ProblemStream(problems, seed=5)
    piecewise = [problem for _ in range(40) for problem in piecewise_stream.take(3)]

    assert piecewise == at_once
    assert ProblemStream(problems, seed=6).take(120) != at_once
