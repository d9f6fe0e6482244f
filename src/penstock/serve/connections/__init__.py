"""One TCP connection each: transports, the RTMP session, what waits to be sent."""
