"""JSON merge patch (RFC 7396)."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """What `patch` makes of `target`, as section 2 of the RFC says. Neither is changed; what stays may be shared.

    A member that is null is taken away, an object is merged, and everything else, an array too, takes the place of
    what was there. It goes as deep as the patch does, which the intake rule bounds.
    """
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made
