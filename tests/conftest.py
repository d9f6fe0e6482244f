"""How hypothesis runs here: few examples and no deadline, since machines are shared.

In CI the examples are the same each time, so that a red run is the fault of the change in hand.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("local", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
