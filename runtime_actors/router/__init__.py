"""Owns calls: lets them in, checks what MiniApps report."""
