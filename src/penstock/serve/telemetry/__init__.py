"""What happens, as log lines, facts and figures."""
