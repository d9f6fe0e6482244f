"""What single resources take and answer, beside what all share in `models`."""
