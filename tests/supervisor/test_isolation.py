from __future__ import annotations

from itertools import product

from runtime_actors.supervisor.isolation import Level, meets


def test_a_level_meets_every_minimum_at_or_below_it() -> None:
    strongest_first = list(Level)

    for (rank, level), (demanded, minimum) in product(enumerate(strongest_first), repeat=2):
        assert meets(level, minimum) == (rank <= demanded)


def test_the_levels_are_named_as_users_type_them() -> None:
    assert [str(level) for level in Level] == ["strong", "sealed", "partial", "process"]
