"""Who may publish and play: rules, keys and signatures. Pure: what the time is, is told."""
