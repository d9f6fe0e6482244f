"""What media payloads mean: frames, tags, decoder set-up and FLV. Importers name the modules.

Pure functions over bytes and file objects that the caller gives: no sockets, no clock, no RTMP.
"""
