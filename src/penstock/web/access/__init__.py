"""What lets somebody in only after a token was verified or somebody else was asked. Needs the extra `web`."""
