"""What changes records, inside the store's transaction."""
