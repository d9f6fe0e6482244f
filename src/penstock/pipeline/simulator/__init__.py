"""An invented day of a streaming platform as facts: servers, streams, viewers, incidents. The same for the same seed.

For demonstrations, tests and the benchmark. `Platform` says how large it is; `write_landing` writes the files that
its servers would land; `bronze.SimulatedBronze` writes the same facts into the bronze of a lake.
"""

from penstock.pipeline.simulator.landing import write_landing
from penstock.pipeline.simulator.plan import Platform
from penstock.pipeline.simulator.truth import StreamTruth, Truth

__all__ = ["Platform", "StreamTruth", "Truth", "write_landing"]
