"""The SDK of one session."""

from __future__ import annotations

from miniapp_worker.actions import MiniAppActions
from miniapp_worker.artifacts import MiniAppArtifacts
from miniapp_worker.capabilities import MiniAppCapabilities
from miniapp_worker.context import MiniAppContext
from miniapp_worker.conversation import MiniAppConversation
from miniapp_worker.inbox import MiniAppInbox
from miniapp_worker.lifecycle import MiniAppLifecycle
from miniapp_worker.sdk import MiniAppSDK
from miniapp_worker.session import Session
from miniapp_worker.surfaces import MiniAppSurfaces
from miniapp_worker.tools import MiniAppTools
from miniapp_worker.ui import MiniAppUi


def sdk_of(session: Session) -> MiniAppSDK:
    """Every API, on this session."""
    inbox = MiniAppInbox(session.pending, session.handed, session.texts)
    actions = MiniAppActions(session.actions, inbox.acknowledge)
    return MiniAppSDK(
        MiniAppContext(session.context),
        inbox,
        MiniAppTools(session.pending, session.calls),
        session.stopping,
        ui=MiniAppUi(session.pending, session.questions, inbox.acknowledge),
        lifecycle=MiniAppLifecycle(session.pending, session.states),
        actions=actions,
        surfaces=MiniAppSurfaces(session.pending, actions),
        artifacts=MiniAppArtifacts(session.pending),
        conversation=MiniAppConversation(session.pending),
        capabilities=MiniAppCapabilities(session.pending, session.decisions, inbox.acknowledge),
    )
