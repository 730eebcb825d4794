"""The report of a campaign as one HTML file: no scripts, and nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from runtime_actors.chaos.campaign import Run, Total, Wanted
from runtime_actors.chaos.judge import sentence_of
from runtime_actors.chaos.lines import told
from runtime_actors.chaos.run import Played
from runtime_actors.chaos.timeline import picture
from runtime_actors.checker import Violation
from runtime_actors.checker.files import write
from runtime_actors.rules.text import neutral

FILE: Final = "chaos.html"
_LINES: Final = 30
_LINE: Final = 400
_SHOWN: Final = 10
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --soft: #e7eaf0; --good: #1a7f4b; --bad: #c02b37;
  --busy: #3b78c9; --wait: #d9a336; --idle: #9fb0c7; --fault: #c02b37; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7ef; --paper: #14171e; --soft: #2a303c; --good: #4fc98a;
  --bad: #ff7a85; --busy: #6ea5ee; --wait: #e3b85b; --idle: #66758c; --fault: #ff7a85; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1140px;
  margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15em .9em .15em 0; vertical-align: top; }
section { border-top: 1px solid var(--soft); margin-top: 2em; }
pre { font: 12.5px/1.45 ui-monospace, monospace; background: var(--soft); padding: .7em; overflow-x: auto; }
.ok { color: var(--good); } .broken { color: var(--bad); font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { fill: currentColor; font-size: 11px; }
svg .time { text-anchor: middle; opacity: .7; } svg .tick { stroke: var(--soft); }
svg rect { rx: 2; fill: var(--idle); } svg rect.starting { fill: var(--wait); opacity: .6; }
svg rect.daemon, svg rect.worker { fill: var(--idle); } svg rect.asked, svg rect.running { fill: var(--busy); }
svg rect.waiting { fill: var(--wait); } svg rect.refused { fill: var(--bad); }
svg circle { fill: var(--busy); stroke: var(--paper); }
svg circle.completed, svg circle.tool-result { fill: var(--good); }
svg circle.failed, svg circle.expired, svg circle.call-interrupted { fill: var(--bad); }
svg circle.cancelled, svg circle.call-redelivered { fill: var(--wait); } svg circle.attached { fill: var(--ink); }
svg line.fault { stroke: var(--fault); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg text.fault { fill: var(--fault); }
"""


def save(folder: Path, scenario: str, wanted: Wanted, total: Total) -> Path:
    """Write the page, and beside it the evidence of each broken run (docs/history.md) and the end of its log."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in total.runs:
        if run.played.violations and run.played.evidence is not None:
            place = folder / f"evidence-{run.played.seed}"
            write(place, run.played.evidence, seed=run.played.seed, faults=[str(one) for one in run.played.faults])
            (place / "daemon.log").write_text(run.played.log, encoding="utf-8")
    page = folder / FILE
    page.write_text(html(scenario, wanted, total), encoding="utf-8")
    return page


def html(scenario: str, wanted: Wanted, total: Total) -> str:
    """The page; well-formed XML, too."""
    body = [f"<h1>lineup chaos {_text(scenario)}</h1>", *_summary(wanted, total), *_table(total)]
    for run in total.runs:
        body += _run(run)
    title = f"lineup chaos {_text(scenario)}"
    head = f'<meta charset="utf-8"/><title>{title}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _summary(wanted: Wanted, total: Total) -> Iterator[str]:
    broken = sum(not run.ok for run in total.runs)
    verdict = (
        f'<span class="broken">{broken} of {len(total.runs)} runs failed</span>'
        if broken
        else (f'<span class="ok">all {len(total.runs)} runs held</span>')
    )
    yield f"<p>{verdict}, seeds from {wanted.seed} on, {len(wanted.steps)} steps a run.</p>"
    rows = "".join(
        f"<tr><td>{kind}</td><td>{count}</td><td>{total.struck[kind]}</td></tr>"
        for kind, count in sorted(total.planned.items())
    )
    yield f"<table><tr><th>fault</th><th>planned</th><th>struck</th></tr>{rows}</table>"
    for rule, count in total.rules.items():
        yield f'<p><span class="broken">{_text(rule)}</span> broke in {count} runs: {_text(sentence_of(rule))}.</p>'


def _table(total: Total) -> Iterator[str]:
    yield "<h2>Runs</h2><table><tr><th>run</th><th>seed</th><th>faults</th><th>verdict</th></tr>"
    for run in total.runs:
        faults = ", ".join(map(str, run.played.faults)) or "none"
        yield (
            f'<tr><td><a href="#r{run.number}">{run.number}</a></td><td>{run.played.seed}</td>'
            f"<td>{_text(faults, 300)}</td><td>{_verdict(run)}</td></tr>"
        )
    yield "</table>"


def _verdict(run: Run) -> str:
    if run.ok:
        return '<span class="ok">held</span>'
    return f'<span class="broken">{_text(", ".join([*run.played.rules, *run.never_hit]), 300)}</span>'


def _run(run: Run) -> Iterator[str]:
    yield f'<section id="r{run.number}"><h2>Run {run.number}, seed {run.played.seed}: {_verdict(run)}</h2>'
    missed = "".join(f"<li>{_text(run.played.why_missed(one))}</li>" for one in run.played.missed)
    yield f"<ul>{missed}</ul>" if missed else ""
    yield run.drawn or picture(run.played)
    if run.shortest is not None:
        yield from _shortest(run, run.shortest)
    yield from _violations(run.played.violations)
    yield "</section>"


def _shortest(run: Run, shortest: Played) -> Iterator[str]:
    if shortest is not run.played:
        faults = ", ".join(map(str, shortest.faults)) or "no fault at all"
        yield f"<h3>Breaks with {_text(faults)}</h3>"
        yield picture(shortest)
        yield from _violations(shortest.violations[:1])


def _violations(violations: Sequence[Violation]) -> Iterator[str]:
    for one in violations[:_SHOWN]:
        rows = "\n".join(_text(told(row), _LINE) for row in one.shortest[:_LINES])
        yield f'<p><span class="broken">{_text(one.rule)}</span>: {_text(one.subject)}: {_text(one.message, 600)}</p>'
        yield f"<pre>{rows}</pre>" if rows else ""


def _text(text: str, limit: int = 200) -> str:
    return escape(neutral(text, limit=limit))
