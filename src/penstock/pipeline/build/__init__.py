"""From bronze to silver, rollups and gold: what a run computes, in which order."""
