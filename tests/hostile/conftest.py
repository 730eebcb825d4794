from __future__ import annotations

from collections.abc import Iterator

import pytest

from miniapp_worker import landlock, seccomp
from tests.e2e.daemon import short_folder
from tests.hostile.arena import CONFINED, GROUPS, VARIANTS, Arena, copies_of

CAN_BE_SEALED = bool(landlock.kernel_abi() and seccomp.is_available())


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    """One daemon for every group of attacks: what one leaves behind, the others meet. At its end nothing is left."""
    if not CAN_BE_SEALED:
        pytest.skip("no worker can be sealed on this kernel, and nothing hostile is run with less")
    with short_folder() as folder:
        folder.chmod(0o755)  # workers may have uids of their own, and the apps below it are theirs to read
        with Arena(folder / "s", *GROUPS, copies=copies_of("startup", folder / "apps", *VARIANTS)) as made:
            made.serves()
            assert made.levels() <= CONFINED
            yield made
            made.ends_and_leaves_nothing()
