"""What the SDK raises. What the runtime refuses in a receipt is a value, not an exception."""

from __future__ import annotations

from typing import Any


class PayloadRefused(ValueError):
    """What an app wanted to send breaks the contract. Nothing was sent."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        """`message_invalid` or `message_too_large`."""
        self.detail = detail


class RequestRefused(Exception):
    """The runtime refused to answer a question. What it says to a wish stands in the receipt."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class CallFailed(Exception):
    """Raised by a handler to fail its call with a code of the app's own."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, data: dict[str, Any] | None = None) -> None:
        """Say what the agent is told: `code` is `app.` and lower-case words, `message` is for people."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable
        self.data = data
