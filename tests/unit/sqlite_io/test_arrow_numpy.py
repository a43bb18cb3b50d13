"""Arrow arrays over NumPy's memory, against what pyarrow itself makes of the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.sources.nsys.integer_columns import distinct, numpy_integers
from tbd_trace.sqlite_io.arrow_numpy import arrow_array

integers = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(values=integers)
def test_integers_are_the_same_there(values: list[int | None]) -> None:
    numbers = np.array([value or 0 for value in values], np.int64)
    nulls = np.array([value is None for value in values], np.bool_)
    array = arrow_array(numbers, nulls)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.int64()))


@given(values=integers, first=st.integers(0, 40))
def test_and_back_from_any_slice(values: list[int | None], first: int) -> None:
    column = pa.array(values, pa.int64())[first:]
    numbers, nulls = numpy_integers(column)
    assert (nulls is None) == (None not in values[first:])
    flags = np.zeros(len(column), np.bool_) if nulls is None else nulls
    found = [None if null else number for number, null in zip(numbers.tolist(), flags, strict=True)]
    assert found == values[first:]
    assert not numbers[flags].any()


def test_a_column_of_nothing_but_nulls() -> None:
    numbers, nulls = numpy_integers(pa.nulls(3, pa.int64()))
    assert numbers.tolist() == [0, 0, 0]
    assert nulls is not None
    assert nulls.all()


@pytest.mark.parametrize("step", [1, 2, -1])
def test_strided_numbers(step: int) -> None:
    assert arrow_array(np.arange(6.0)[::step]).to_pylist() == list(np.arange(6.0)[::step])


@given(values=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**64 - 1]), max_size=40))
def test_distinct_numbers(values: list[int]) -> None:
    assert distinct(np.array(values, np.uint64)).tolist() == sorted(set(values))
