"""Live streams, who publishes and watches them, and the fan-out."""
