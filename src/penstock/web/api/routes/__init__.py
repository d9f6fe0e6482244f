"""One module for each resource of the API."""
