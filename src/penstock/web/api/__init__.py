"""The API of operators: who may call it, what it answers, and what it has others do. Needs the extra `web`."""
