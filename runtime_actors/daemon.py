"""Starts every part in order, recovers, serves, and stops in reverse. The one place where the parts meet."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime_actors import log, policy_file, registry, state_folder
from runtime_actors.actor import Beat, Care, Ref, RuntimeActor, SetAside
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.channel.descriptors import raise_fd_limit
from runtime_actors.channel.door import Door, SocketLimits, cut
from runtime_actors.channel.socket import SocketThread
from runtime_actors.commands import agents, apps, follow_ups, interactions, policy_changes, recovery
from runtime_actors.commands import calls as call_commands
from runtime_actors.commands.upkeep import set_aside
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import AppRefused, ExitCode, GaveUp, IsolationTooWeak, RuntimeActorsError, StoreUnusable
from runtime_actors.gateway.actor import GatewayActor
from runtime_actors.gateway.control import Control
from runtime_actors.gateway.tcp import TcpDoor
from runtime_actors.interaction.actor import InteractionActor
from runtime_actors.machinery import DaemonMachinery
from runtime_actors.orchestrator.actor import OrchestratorActor
from runtime_actors.outbox.actor import OutboxActor
from runtime_actors.records.transaction import Chain, Settings
from runtime_actors.router.actor import RouterActor
from runtime_actors.rules.inventory import Inventory
from runtime_actors.rules.policy import NO_RULES
from runtime_actors.rules.text import neutral
from runtime_actors.shell.actor import ShellActor
from runtime_actors.store.actor import StoreActor, StoreParts
from runtime_actors.store.client import Store
from runtime_actors.store.failpoints import Failpoints
from runtime_actors.store.messages import Upkeep
from runtime_actors.store.opening import OpenStore, open_store
from runtime_actors.supervisor import messages as supervisor
from runtime_actors.supervisor.actor import ZYGOTE, SupervisorActor
from runtime_actors.supervisor.cgroups import Parents
from runtime_actors.supervisor.exits import ExitWatcher
from runtime_actors.supervisor.isolation import Level, meets
from runtime_actors.supervisor.log_files import LogFolder
from runtime_actors.supervisor.logs import LogCapture
from runtime_actors.supervisor.measured import Measure
from runtime_actors.supervisor.probe import probe
from runtime_actors.supervisor.process import become_undumpable, reap_strangers
from runtime_actors.supervisor.zygote import Offers, ZygoteProcess
from runtime_actors.system import RandomIds, SystemClock
from runtime_actors.timers import TimerThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.config import RuntimeConfig
    from runtime_actors.rules.inventory import Catalogue
    from runtime_actors.supervisor.process import ExitStatus

logger = logging.getLogger(__name__)

_MIN_DESCRIPTORS: Final = 256
_RECOVER_WITHIN_S: Final = 120.0
_ZYGOTE_STARTS: Final = 20
"""Within `_ZYGOTE_PERIOD_S`; one more and the daemon ends."""
_ZYGOTE_PERIOD_S: Final = 30.0
_STUCK_S: Final = 30.0
_LOOK_S: Final = 5.0
_STOP_S: Final = 3.0
_SWITCH_INTERVAL_S: Final = 0.0002
"""One busy thread would make each hand-over between actors wait for 5 ms otherwise."""


@dataclass(frozen=True, slots=True)
class _End:
    """The main thread shall end the daemon."""

    code: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class _StartZygote:
    """The main thread shall start the zygote: it lives as long as the thread that started it."""


@dataclass(slots=True)
class _Main:
    """What the main thread is told."""

    queue: queue.SimpleQueue[_End | _StartZygote] = field(default_factory=queue.SimpleQueue)

    def end(self, code: int, why: str = "") -> None:
        """End the daemon. From any thread, also from a signal handler: SimpleQueue is reentrant."""
        self.queue.put(_End(code, why))


class Daemon:
    """The parts of one daemon. Belongs to the main thread."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.main = _Main()
        self.clock, self.ids = SystemClock(), RandomIds()
        self.refs = {name: Ref(name) for name in _ORDER}
        self.actors: dict[str, RuntimeActor] = {}
        self.beats: dict[str, float] = {}
        self.stopping = False
        self.level = Level.PROCESS
        self.policy = NO_RULES
        self.zygote_starts: list[float] = []
        if raise_fd_limit() < _MIN_DESCRIPTORS:
            detail = f"fewer than {_MIN_DESCRIPTORS} file descriptors are allowed; raise the limit (`ulimit -n`)"
            raise GaveUp(detail)
        self.timers = TimerThread(self._crashed)
        self.sockets = SocketThread(
            on_crash=lambda: self.main.end(ExitCode.GAVE_UP, "the socket thread failed"),
            limits=SocketLimits(backlog=config.bounds.mailbox),
        )
        self.logs = LogCapture(LogFolder(config.state / "logs"))
        self.zygote = ZygoteProcess(sockets=config.state, landlock_at_most=config.landlock_abi)
        self.watcher = ExitWatcher(self._exited)
        self.tcp = TcpDoor(config.state, config.run_folder / "agent.sock", config.listen)
        self.machinery = DaemonMachinery(
            config,
            self.refs,
            self.actors,
            self.logs,
            self.tcp,
            stop=lambda: self.main.end(ExitCode.STOPPED),
            level=lambda: self.level,
        )

    # --- from start to stop ---

    def run(self) -> int:
        """Until it is told to stop; the exit code is returned."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        become_undumpable()
        self.policy = policy_file.of_state(self.config.state)
        # Before there is a zygote, which would have to move along.
        groups = Parents.find(os.getpid(), self._name()) if sys.platform == "linux" else None
        catalogue, refused = registry.load(self.config.apps, state=self.config.state)
        for error in refused:
            logger.warning("%s%s", log.LEFT_OUT, error)
        if refused and self.config.all_apps:
            raise refused[0]  # before the store is opened, in which its calls would end
        self.logs.start()
        self.watcher.start()
        self._start_zygote()
        self._check_isolation()  # before there is anything in a folder that is refused
        opened = open_store(self.config.state, self.config.durability, self.clock)
        self.timers.start()
        self.sockets.start()
        store = Store(self.refs["store"])
        self._start_store(opened, catalogue)
        for error in refused:
            store.run(agents.note_event, _left_out(error))
        inventory = self._recover(store)
        self._start_actors(store, catalogue, inventory, groups)
        self._recover_calls(store)
        self._open_doors()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.main.end(ExitCode.STOPPED))
        self.tcp.start(self._wait(store, agents.public_keys, None))
        sys.stdout.write(f"ready {self.config.run_folder / 'agent.sock'}\n")
        sys.stdout.flush()
        logger.info("serving", extra={"state": self.config.state, "apps": len(catalogue.apps)})
        code = self._serve()
        self._stop(code)
        return code

    def _name(self) -> str:
        """Of the daemon of this state folder, whichever process it is."""
        return hashlib.sha256(os.fsencode(self.config.state)).hexdigest()[:12]

    def _serve(self) -> int:
        """The main thread's loop: orders, and a look whether anybody is stuck."""
        while True:
            try:
                order = self.main.queue.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look()
                continue
            match order:
                case _StartZygote():
                    self._start_zygote()
                case _End(code, why):
                    if why:
                        logger.error("the daemon ends: %s", why)
                    return code

    def _look(self) -> None:
        now = time.monotonic()
        for name, ref in self.refs.items():
            if now - self.beats.setdefault(name, now) > _STUCK_S:
                self.main.end(ExitCode.GAVE_UP, f"the {name} is stuck")
            ref.tell(Beat(self._beat))
        self.refs["store"].tell(Upkeep())
        self.tcp.look()

    def _beat(self, name: str) -> None:
        self.beats[name] = time.monotonic()

    def _stop(self, code: int) -> None:
        """In reverse: no new peers, workers told to end, then the actors, the store last."""
        self.stopping = True
        self.tcp.stop()
        for name in ("agent", "host", "control"):
            self.sockets.close_door(name, keep_peers=True)
        if code == ExitCode.STOPPED:
            self.refs["supervisor"].tell(supervisor.StopAll())
            workers = self.actors["supervisor"]
            assert isinstance(workers, SupervisorActor)  # noqa: S101 - for the type checker
            deadline = time.monotonic() + self.config.stop_grace_s + 0.5
            while workers.worker_pids and time.monotonic() < deadline:
                time.sleep(0.01)
        self.timers.stop()
        self.sockets.stop()
        self.sockets.join(_STOP_S)
        for name in reversed(_ORDER):
            self.refs[name].stop(_STOP_S if code == ExitCode.STOPPED else 0.2)
        self.watcher.stop(1.0)
        self.logs.stop(1.0)
        self.zygote.close()

    # --- starting ---

    def _start_zygote(self) -> None:
        if self.stopping:
            return
        now = time.monotonic()
        self.zygote_starts = [at for at in self.zygote_starts if now - at < _ZYGOTE_PERIOD_S] + [now]
        if len(self.zygote_starts) > _ZYGOTE_STARTS:
            self.main.end(
                ExitCode.GAVE_UP, f"the zygote ended {_ZYGOTE_STARTS} times; its log is in {self.config.state / 'logs'}"
            )
            return
        log_fd = self.logs.open(ZYGOTE, f"{ZYGOTE}-{time.time_ns()}")
        try:
            self.zygote.start(log_fd)
        finally:
            os.close(log_fd)
        self.watcher.watch(ZYGOTE, self.zygote)
        threading.Thread(target=self._await_zygote, name="zygote-ready", daemon=True).start()

    def _await_zygote(self) -> None:
        try:
            offers = self.zygote.wait_ready()
        except RuntimeActorsError:
            return  # its end is told by the watcher, which has it started again
        self._let_pass(offers)
        self.refs["supervisor"].tell(supervisor.ZygoteReady(offers))

    def _let_pass(self, offers: Offers) -> None:
        if offers.uids and not offers.own_root:
            state_folder.let_workers_pass(self.config.state)

    def _check_isolation(self) -> None:
        """Measure a worker, before anything can be asked of this daemon."""
        state, minimum = self.config.state, Level(self.config.min_isolation)
        offers = self.zygote.wait_ready()
        exposed = offers.exposes(state)
        if exposed is not None:
            detail = f"workers can read {exposed}, so the state folder must not be there: choose another with --state"
            raise IsolationTooWeak(detail)
        self._let_pass(offers)
        found = probe(self.zygote, offers)
        self.level = found.level
        logger.info("workers are confined", extra={"level": found.level, "lacks": found.lacks})
        if not meets(found.level, minimum):
            detail = (
                f"isolation '{minimum}' cannot be had here, only '{found.level}': {found.lacks}. `lineup doctor` shows "
                f"what that leaves open; --min-isolation {found.level} accepts it"
            )
            raise IsolationTooWeak(detail)

    def _exited(self, key: str, status: ExitStatus) -> None:
        self.refs["supervisor"].tell(supervisor.Exited(key, status))

    def _start_store(self, opened: OpenStore, catalogue: Catalogue) -> None:
        config = self.config
        settings = Settings(
            catalogue=catalogue,
            bounds=config.bounds,
            restart=config.restart,
            cancel_grace_s=config.cancel_grace_s,
            stop_grace_s=config.stop_grace_s,
            policy=self.policy,
        )
        refs = self.refs
        listeners = {
            follow_ups.Deliver: refs["channel"],
            follow_ups.Settled: refs["channel"],
            follow_ups.TellCallChanged: refs["channel"],
            follow_ups.TellContext: refs["channel"],
            follow_ups.TellInteraction: refs["channel"],
            follow_ups.InteractionDueAt: refs["interaction"],
            follow_ups.Post: refs["outbox"],
            follow_ups.InstanceWanted: refs["orchestrator"],
            follow_ups.InstanceDone: refs["orchestrator"],
            follow_ups.DueAt: refs["router"],
            follow_ups.InventoryChanged: refs["router"],
            follow_ups.Shown: refs["shell"],
        }
        parts = StoreParts(
            sql=opened.sql,
            chain=opened.chain,
            side=opened.side,
            ballast=opened.ballast,
            identity=opened.identity,
            settings=settings,
            clock=self.clock,
            ids=self.ids,
            listeners=listeners,
            failpoints=self.make_failpoints(opened.chain),
            unusable=lambda why: self.main.end(ExitCode.STORE, why),
        )
        refs["store"].fill(StoreActor.start(self._care(), parts))

    def make_failpoints(self, _chain: Chain) -> Failpoints:
        """What is planted around each COMMIT of the store whose audit chain is given."""
        return Failpoints(self.config.failpoints, self._fail)

    def _recover(self, store: Store) -> Inventory:
        """What must be known before the other actors start. Follow-ups of these commands wait for them."""
        self._wait(store, policy_changes.note_policy, None)
        self._wait(store, recovery.retire_missing_apps, None)
        inventory = self._wait(store, apps.current_inventory, None)
        assert isinstance(inventory, Inventory)  # noqa: S101 - for the type checker
        return inventory

    def _recover_calls(self, store: Store) -> None:
        found = self._wait(store, recovery.recover, None)
        while self._wait(store, call_commands.expire_due, None).ended:
            pass
        self._wait(store, interactions.fail_unreadable, None)
        while self._wait(store, interactions.expire_interactions, None).ended:
            pass
        for key in found.interrupted:  # not waited for: whoever comes in by a door stands behind them
            store.run(recovery.recover_call, key, call_key=key)

    def _start_actors(self, store: Store, catalogue: Catalogue, inventory: Inventory, groups: Parents | None) -> None:
        config, refs, care, timers = self.config, self.refs, self._care(), self.timers
        refs["channel"].fill(
            ChannelActor.start(
                care,
                store=store,
                sockets=self.sockets,
                folder=config.run_folder / "w",
                router=refs["router"],
                supervisor=refs["supervisor"],
                me=refs["channel"],
                backlog=refs["channel"].backlog,
                measure=Measure(Level(config.min_isolation), os.getpid(), self.zygote.ties),
                rate=config.bounds.instance_rate,
                timers=timers,
                clock=self.clock,
                ping_s=config.ping_s,
                start_timeout_s=config.start_timeout_s,
                sweep_s=config.sweep_s,
            )
        )
        refs["supervisor"].fill(
            SupervisorActor.start(
                care,
                store=store,
                zygote=self.zygote,
                watcher=self.watcher,
                logs=self.logs,
                catalogue=catalogue,
                channel=refs["channel"],
                orchestrator=refs["orchestrator"],
                me=refs["supervisor"],
                timers=timers,
                groups=groups,
                restart_zygote=lambda: self.main.queue.put(_StartZygote()),
                reap_strangers=self._reap_strangers,
                most=config.app_limits,
                stop_grace_s=config.stop_grace_s,
                sweep_s=config.sweep_s,
            )
        )
        refs["outbox"].fill(
            OutboxActor.start(
                care, store=store, sockets=self.sockets, me=refs["outbox"], timers=timers, sweep_s=config.sweep_s
            )
        )
        refs["shell"].fill(
            ShellActor.start(
                care, store=store, sockets=self.sockets, me=refs["shell"], timers=timers, sweep_s=config.sweep_s
            )
        )
        refs["interaction"].fill(
            InteractionActor.start(
                care, store=store, me=refs["interaction"], timers=timers, clock=self.clock, sweep_s=config.sweep_s
            )
        )
        refs["orchestrator"].fill(
            OrchestratorActor.start(
                care,
                store=store,
                supervisor=refs["supervisor"],
                me=refs["orchestrator"],
                timers=timers,
                clock=self.clock,
                live_processes=config.bounds.live_processes,
                suspend_after_s=config.suspend_after_s,
                sweep_s=config.sweep_s,
            )
        )
        refs["router"].fill(
            RouterActor.start(
                care,
                store=store,
                channel=refs["channel"],
                supervisor=refs["supervisor"],
                gateway=refs["gateway"],
                me=refs["router"],
                timers=timers,
                clock=self.clock,
                catalogue=catalogue,
                inventory=inventory,
                sweep_s=config.sweep_s,
            )
        )
        refs["gateway"].fill(
            GatewayActor.start(
                care,
                store=store,
                store_backlog=refs["store"].backlog,
                most_backlog=config.bounds.mailbox,
                sockets=self.sockets,
                router=refs["router"],
                outbox=refs["outbox"],
                shell=refs["shell"],
                me=refs["gateway"],
                control=Control(store, refs["supervisor"], self.machinery),
                clock=self.clock,
                inventory=inventory,
                relay_secret=self.tcp.secret,
                rate=config.bounds.agent_rate,
            )
        )

    def _open_doors(self) -> None:
        gateway = self.refs["gateway"]
        for name, most in (("agent", 512), ("host", 64), ("control", 64)):
            path = self.config.run_folder / f"{name}.sock"
            self.sockets.listen(Door(name, path, gateway, gateway.backlog, max_peers=most))

    def _wait(self, store: Store, rule: Callable[..., Any], argument: object) -> Any:  # noqa: ANN401 - the rule's outcome
        """Run a rule and wait for its outcome; only `boot` waits for the store."""
        box: queue.SimpleQueue[object] = queue.SimpleQueue()
        store.run(rule, argument, box.put)
        outcome = box.get(timeout=_RECOVER_WITHIN_S)
        if isinstance(outcome, Rejection):
            detail = f"the store could not be brought in order: {outcome.detail}"
            raise StoreUnusable(detail)
        return outcome

    # --- care ---

    def _care(self) -> Care:
        return Care(set_aside=self._set_aside, give_up=self._crashed, born=self._born)

    def _born(self, actor: RuntimeActor) -> None:
        self.actors[actor.name] = actor

    def _crashed(self, name: str, error: BaseException) -> None:
        self.main.end(ExitCode.GAVE_UP, f"{name} failed too often: {error!r}")

    def _set_aside(self, aside: SetAside) -> None:
        Store(self.refs["store"]).run(set_aside, aside)

    def _reap_strangers(self, workers: frozenset[int]) -> None:
        known = set(workers) | {pid for pid in (self.zygote.pid, self.tcp.pid) if pid is not None}
        reap_strangers(known)

    def _fail(self, action: str) -> None:
        """A failpoint was passed."""
        workers = self.actors.get("supervisor")
        match action:
            case "kill-daemon":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop-daemon":  # to the thread that is here, so that it does not go one instruction further
                signal.raise_signal(signal.SIGSTOP)
            case "cut-worker" if isinstance(workers, SupervisorActor):
                for pid in workers.worker_pids:
                    cut(pid)
            case "kill-zygote" if self.zygote.pid is not None:
                _kill(self.zygote.pid)
            case "kill-worker" if isinstance(workers, SupervisorActor):
                for pid in workers.worker_pids:
                    _kill(pid)


def _left_out(refused: AppRefused) -> agents.Event:
    """For the audit log. The folder's name need not be text that an entry could hold."""
    return agents.Event("app.refused", {"who": neutral(Path(refused.folder).name)}, RejectionCode.MANIFEST_INVALID)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)


_ORDER: Final = (
    "store", "channel", "supervisor", "outbox", "shell", "interaction", "orchestrator", "router", "gateway",
)  # fmt: skip
"""Who is started when. Stopped in reverse."""
