"""For MiniApp authors: a first app, a runtime to try it in, and the promises that an app must keep."""
