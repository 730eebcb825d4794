"""`lineup chaos`: crash testing for anyone's MiniApp (docs/chaos.md).

A scenario is played against a real daemon of its own; faults strike it at named points; a history checker judges what
clients saw. `plan` says what strikes where, `world` strikes, `run` plays and judges one run, `campaign` many of them,
`show` and `page` tell people.
"""
