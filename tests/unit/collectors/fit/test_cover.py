"""The cheapest subset, compared with all subsets."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from tbd_collectors.fit.cover import Constraint, cheapest

ITEMS = 6
numbers = st.integers(0, 9)
constraints = st.builds(
    Constraint,
    st.tuples(*[numbers] * ITEMS),
    st.integers(-3, 40),
    st.none() | st.integers(0, ITEMS - 1),
)


def satisfies(subset: tuple[int, ...], one: Constraint) -> bool:
    is_active = one.only_with is None or one.only_with in subset
    return not is_active or sum(one.gains[item] for item in subset) >= one.least


@given(st.lists(numbers, min_size=ITEMS, max_size=ITEMS), st.lists(constraints, max_size=4))
def test_no_subset_is_cheaper(costs: list[int], given_constraints: list[Constraint]) -> None:
    subsets = chain.from_iterable(combinations(range(ITEMS), n) for n in range(ITEMS + 1))
    possible = [s for s in subsets if all(satisfies(s, one) for one in given_constraints)]
    found = cheapest(costs, given_constraints)
    if not possible:
        assert found is None
        return
    assert found is not None
    assert tuple(found) in possible
    least = min(sum(costs[item] for item in subset) for subset in possible)
    assert sum(costs[item] for item in found) == least


def test_many_equal_items_are_quick() -> None:
    """96 equal layers: as many sets of 35 of them as no search could visit."""
    found = cheapest([1000] * 96, [Constraint((7,) * 96, 240)])
    assert found is not None
    assert len(found) == 35
