"""Who may publish and play here: asked before anything begins, and again while it lasts."""
