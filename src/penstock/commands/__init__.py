"""What each command does. A module here provides HELP, add_arguments and run; heavy imports wait until run."""
