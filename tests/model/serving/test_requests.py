"""Streams of requests, and files of them: forms that are known, lines that are broken."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.errors import FileError, RooflabError
from rooflab.model.serving import requests
from rooflab.model.serving.request_files import read_requests


def test_random_streams_have_the_rate_lengths_and_burstiness_that_are_asked():
    made = requests.at_random(8.0, 20_000, 100, 50, spread=0.2, burstiness=0.25, seed=1)
    gaps = np.diff(made.arrival_s)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)  # 1 / sqrt(0.25)
    assert (made.prompt.min(), made.prompt.max(), made.answer.min(), made.answer.max()) == (80, 120, 40, 60)
    assert made.prompt.mean() == pytest.approx(100, rel=0.01)
    again = requests.at_random(8.0, 20_000, 100, 50, spread=0.2, burstiness=0.25, seed=1)
    assert np.array_equal(made.arrival_s, again.arrival_s)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate_per_s": -1.0}, "rate: got -1, expected a number above 0"),
        ({"rate_per_s": float("nan")}, "rate: got nan, expected a number above 0"),
        ({"burstiness": 0.0}, "burstiness: got 0, expected a number above 0"),
        ({"prompt": 0}, "isl: got 0, expected a whole number of tokens above 0"),
        ({"answer": -3}, "osl: got -3, expected a whole number of tokens above 0"),
        ({"cached": 10}, "cached: got 10 tokens of a prompt of 10, expected 0 to 9"),
        ({"spread": 1.0}, "spread: got 1, expected a share from 0 to below 1"),
        ({"seed": -1}, "seed: got -1, expected a whole number from 0 on"),
        ({"count": 0}, "requests: got 0, expected a whole number above 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change, said):
    with pytest.raises(RooflabError) as error:
        requests.at_random(**{"rate_per_s": 1.0, "count": 5, "prompt": 10, "answer": 5, **change})
    assert str(error.value) == said


FILES = {
    "own.csv": "arrival_s,prompt_tokens,answer_tokens,cached_tokens\n3.5,100,20,64\n1.0,50,10,\n",
    "azure.csv": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,50,10\n"
        "2023-11-16 18:17:06.4799600,100,20\n"
    ),
    "burst.csv": "Timestamp,Model,Request tokens,Response tokens,Log Type\n5,G,50,10,A\n7.5,G,100,20,A\n",
    "mooncake.jsonl": (
        '{"timestamp": 1000, "input_length": 50, "output_length": 10, "hash_ids": [1]}\n'
        '{"timestamp": 3500, "input_length": 1000, "output_length": 20, "hash_ids": [1, 2]}\n'
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_known_forms_are_read(tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    found = read_requests(path)
    assert found.arrival_s.tolist() == pytest.approx([0.0, 2.5])
    assert (found.prompt[0], found.answer.tolist(), found.dropped) == (50, [10, 20], 0)
    # 64 stated; the first block of 512 tokens of the second request came with the first.
    assert found.cached[1] == {"own.csv": 64, "mooncake.jsonl": 512}.get(name, 0)


def test_broken_lines_are_counted_and_the_first_are_named(tmp_path):
    path = tmp_path / "dirty.csv"
    path.write_text(
        "arrival_s,prompt_tokens,answer_tokens\n1,10,5\nx,10,5\n2,-4,5\n3,10,0\n4,10\n5,2.5,1\n6,10,5\n",
        encoding="utf-8",
    )
    found = read_requests(path)
    assert (len(found.prompt), found.dropped) == (2, 5)
    assert found.faults == (
        "line 3: arrival_s 'x' is no number",
        "line 4: prompt_tokens '-4', expected a number from 0 on",
        "line 5: answer_tokens '0', expected a whole number from 1 on",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrival,prompt_tokens,answer_tokens\n1,2,3\n", "columns .*is 'arrival' it"),
        ("arrival_s,prompt_tokens,answer_tokens\n1,2,0\n", "no request in 1 lines: line 2"),
        ("", "no line that holds a request"),
        ("arrival_s,prompt_tokens,answer_tokens\n", "no line that holds a request"),
        ('{"a": \n', "no line that holds a request"),
    ],
)
def test_files_without_a_request_are_refused(tmp_path, text, said):
    path = tmp_path / "some.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=said):
        read_requests(path)
    with pytest.raises(FileError, match="No such file"):
        read_requests(tmp_path / "none.csv")
