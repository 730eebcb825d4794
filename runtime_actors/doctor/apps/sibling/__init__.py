"""Sibling: another app, with an open call and a file of its own, neither of which is the intruder's business."""
