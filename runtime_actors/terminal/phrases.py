"""What the shell says, in each language that it knows. Words of apps, agents and people stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNTIME: Final = "LineUp Runtime"
"""What a question of policy is asked by, in every language. No app may be called so."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """Everything a person reads that is the shell's own. In braces stands what is put in."""

    conversations: str
    apps: str
    questions: str
    invitation: str
    no_conversation: str
    help: str
    keys: Mapping[str, str]
    """Action of a key to its label, short enough for all of them to fit 80 cells."""
    words: Mapping[str, str]
    """States, outcomes and speakers, which are words of the wire elsewhere."""
    asks: str
    asks_in_timeline: str
    hangs: str
    revision: str
    gone: str
    answered_first: str
    answered_first_with: str
    ended: str
    changed: str
    set_aside: str
    waits: str
    cleared: str
    force: str
    talking: str
    says_yes: str
    says_no: str
    confirm: str
    one_of: str
    some_of: str
    enter: str
    needed: str
    optional: str
    number: str
    back: str
    between: str
    at_least: str
    at_most: str
    characters: str
    is_needed: str
    no_number: str
    too_large: str
    beyond: str
    type_yes_or_no: str
    only_one: str
    several_fields: str

    def word(self, of_wire: str) -> str:
        """A state, an outcome or a speaker, as people say it."""
        return self.words.get(of_wire, of_wire)


ENGLISH: Final = Phrases(
    conversations="Conversations",
    apps="Apps",
    questions="Questions",
    invitation="Say something, or answer the question above",
    no_conversation="no conversation yet",
    help="type to talk, or to answer the question above",
    keys={
        "dismiss": "dismiss",
        "next_question": "question",
        "talk": "talk",
        "quit": "quit",
        "next_conversation": "chat",
        "front": "front",
        "close_app": "close",
        "force_close": "force",
    },
    words={},
    asks="{who} asks",
    asks_in_timeline="asks: {title}",
    hangs="hangs",
    revision="revision",
    gone="the daemon is gone; this attaches again when it is back",
    answered_first="somebody else answered first: your answer does not count",
    answered_first_with="somebody else answered first: {title}: {outcome}",
    ended="ended: {title}: {outcome}",
    changed="the question has changed: enter again if this line is for what you see now",
    set_aside="not sent: “{line}”",
    waits="{who} asks something: it waits until your line is sent or cleared",
    cleared="cleared; esc once more dismisses the question",
    force="F9 once more within 3 s closes {title} by force",
    talking="This line goes to the agent.",
    says_yes="yes",
    says_no="no",
    confirm="yes: {yes}   no: {no}",
    one_of="type a number from 1 to {count}",
    some_of="type numbers from 1 to {count}",
    enter="enter: {label}",
    needed="needed",
    optional="may be empty",
    number="a number",
    back="up: the field before",
    between="{least} to {most}",
    at_least="at least {least}",
    at_most="at most {most}",
    characters="{range} characters",
    is_needed="{label} is needed",
    no_number="{label} must be a number",
    too_large="{label} is too large",
    beyond="{label}: {limit}",
    type_yes_or_no="type yes or no",
    only_one="only one can be chosen",
    several_fields="it has several fields: open it to fill them in",
)

CHINESE: Final = Phrases(
    conversations="会话",
    apps="应用",
    questions="问题",
    invitation="说点什么，或回答上面的问题",  # noqa: RUF001 - Chinese
    no_conversation="还没有会话",
    help="输入文字与智能体对话，或回答上面的问题",  # noqa: RUF001 - Chinese
    keys={
        "dismiss": "不答",
        "next_question": "问题",
        "talk": "对话",
        "quit": "退出",
        "next_conversation": "会话",
        "front": "前台",
        "close_app": "关闭",
        "force_close": "强关",
    },
    words={
        "agent": "智能体",
        "person": "我",
        "foreground": "前台",
        "background": "后台",
        "starting": "启动中",
        "suspended": "已挂起",
        "closed": "已关闭",
        "failed": "失败",
        "cancelled": "已取消",
        "expired": "已过期",
        "yes": "是",
        "no": "否",
        "read": "已读",
    },
    asks="{who} 提问",
    asks_in_timeline="提问：{title}",  # noqa: RUF001 - Chinese
    hangs="无响应",
    revision="修订",
    gone="守护进程已断开；恢复后会自动重新连接",  # noqa: RUF001 - Chinese
    answered_first="别人已先回答：你的回答不算数",  # noqa: RUF001 - Chinese
    answered_first_with="别人已先回答：{title}：{outcome}",  # noqa: RUF001 - Chinese
    ended="已结束：{title}：{outcome}",  # noqa: RUF001 - Chinese
    changed="问题已变；如果这一行是给现在所见的，请再按回车",  # noqa: RUF001 - Chinese
    set_aside="未发送：“{line}”",  # noqa: RUF001 - Chinese
    waits="{who} 有问题：等你发送或清空这一行",  # noqa: RUF001 - Chinese
    cleared="已清空；再按 esc 则不回答此问题",  # noqa: RUF001 - Chinese
    force="3 秒内再按 F9 将强制关闭 {title}",
    talking="这一行将发给智能体。",
    says_yes="是",
    says_no="否",
    confirm="是：{yes}   否：{no}",  # noqa: RUF001 - Chinese
    one_of="输入 1 到 {count} 的一个编号",
    some_of="输入 1 到 {count} 的编号，可多个",  # noqa: RUF001 - Chinese
    enter="回车：{label}",  # noqa: RUF001 - Chinese
    needed="必填",
    optional="可空",
    number="数字",
    back="上键：上一项",  # noqa: RUF001 - Chinese
    between="{least} 到 {most}",
    at_least="至少 {least}",
    at_most="至多 {most}",
    characters="{range} 个字符",
    is_needed="{label} 必填",
    no_number="{label} 必须是数字",
    too_large="{label} 太大",
    beyond="{label}：{limit}",  # noqa: RUF001 - Chinese
    type_yes_or_no="请输入 是 或 否",
    only_one="只能选一个",
    several_fields="它有多项：请打开逐项填写",  # noqa: RUF001 - Chinese
)


def phrases_of(environment: Mapping[str, str]) -> Phrases:
    """Those of the person's locale: the first that is set of LC_ALL, LC_MESSAGES and LANG (POSIX, XBD 8.2)."""
    locale = next((found for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (found := environment.get(name))), "")
    return CHINESE if locale.lower().startswith("zh") else ENGLISH
