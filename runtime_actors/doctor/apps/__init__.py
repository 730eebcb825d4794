"""MiniApps of the doctor. They run from a copy, so that what they may harm is never what is installed."""
