"""A day of a platform, made up: servers, streams, viewers and what goes wrong, as facts. The same for the same seed.

For demonstrations, tests and the benchmark. `Platform` says how large; `write_landing` writes what servers would land;
`bronze.SimulatedBronze` writes the same facts into a lake.
"""

from penstock.pipeline.simulator.landing import write_landing
from penstock.pipeline.simulator.plan import Platform
from penstock.pipeline.simulator.truth import StreamTruth, Truth

__all__ = ["Platform", "StreamTruth", "Truth", "write_landing"]
