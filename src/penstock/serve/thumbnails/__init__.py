"""Pictures of streams: key frames to JPEGs, decoded in a process that may do nothing else."""
