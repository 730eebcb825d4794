"""The MiniApps that come with the runtime: a manifest and an app each."""
