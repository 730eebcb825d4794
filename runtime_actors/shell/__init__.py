"""Sends hosts what a person may see, and has recorded what a person does."""
