"""Who may publish and play: rules, keys and signatures. Pure: what the time is, is told.

`Policy.decide` answers an `AccessRequest`; `Policy.connect` says what Adobe's challenge has to do with a connect.
"""
