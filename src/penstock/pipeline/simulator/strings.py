"""Names, addresses and ids in simulated facts.

Each text is made once and looked up by row, since there are many more facts than texts.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.simulator.plan import CLIENTS, SCANNER, Ints, Plan
from penstock.pipeline.simulator.timeline import Connections

CAMPAIGNS = ("spring", "newsletter", "partner")
PUBLISHER = "FMLE/3.0 (compatible; FMSc/1.0)"


class Strings:
    """Texts by row of the plan. Ids of views and publications are there once their first fact has a number."""

    def __init__(self, plan: Plan, connections: Connections) -> None:
        views, publications = plan.views, plan.publications
        self._view_boot, self._publication_boot = views.boot, publications.boot
        self._server_id = pa.array([boot.server_id for boot in plan.boots])
        self._boot_id = pa.array([boot.boot_id for boot in plan.boots])
        self._event_prefix = pa.array([f"{boot.server_id}-{boot.boot_id}" for boot in plan.boots])
        self._app = pa.array([plan.stream_apps[each] for each in plan.channels.stream])
        self._stream = pa.array([plan.stream_names[each] for each in plan.channels.stream])
        prefix = pa.array([boot.conn_prefix for boot in plan.boots]).take(pa.array(connections.boot))
        self._conn_id = _dashed(prefix, connections.number)
        addresses = [plan.person_ip[person] for person in views.person]
        ports = [*views.port.tolist(), *(30_000 + publications.channel).tolist()]
        addresses += [f"192.0.2.{channel % 250 + 1}" for channel in publications.channel]
        self._peer_addr = pa.array([f"{ip}:{port}" for ip, port in zip(addresses, ports, strict=True)])
        protocols = [plan.person_protocol[person] for person in views.person]
        self._protocol = pa.array([*protocols, *(["rtmp"] * len(publications.boot))])
        clients = [
            None if outcome == SCANNER else CLIENTS[plan.person_client[person]]
            for outcome, person in zip(views.outcome, views.person, strict=True)
        ]
        self._client = pa.array([*clients, *([PUBLISHER] * len(publications.boot))])
        apps = self._app.take(pa.array(np.concatenate([views.channel, publications.channel])))
        self._conn_app = pc.if_else(pc.is_valid(self._client), apps, None)
        self._viewer = pa.array([plan.person_viewer[person] for person in views.person], pa.string())
        self._subject = pa.array([plan.person_subject[person] for person in views.person], pa.string())
        publishers = [plan.stream_subject[each] for each in plan.channels.stream[publications.channel]]
        self._publisher = pa.array(publishers, pa.string())
        campaigns = [f'{{"campaign":"{each}"}}' for each in CAMPAIGNS]
        number = np.arange(len(views.boot)) % (len(CAMPAIGNS) + 1)
        self._dimensions = pa.array([*campaigns, None]).take(pa.array(number))
        self._view_id = pa.array([])
        self._publication_id = pa.array([])

    def learn_numbers(self, view_seq: Ints, publication_seq: Ints) -> None:
        """Make the ids of views and publications, whose first facts have these numbers; 0: not told yet."""
        view_ids = self.event_id(self._view_boot, view_seq)
        self._view_id = pc.if_else(pa.array(view_seq > 0), view_ids, None)
        self._publication_id = self.event_id(self._publication_boot, publication_seq)

    def event_id(self, boot: Ints, seq: Ints) -> pa.Array:
        return _dashed(self._event_prefix.take(pa.array(boot)), seq)

    def boot(self, boot: Ints) -> dict[str, pa.Array]:
        return {"server_id": _looked_up(self._server_id, boot), "boot_id": _looked_up(self._boot_id, boot)}

    def stream(self, channel: Ints) -> dict[str, pa.Array]:
        return {"app": _looked_up(self._app, channel), "stream": _looked_up(self._stream, channel)}

    def view_id(self, view: Ints) -> pa.Array:
        """Ids of views; null for plays that never started."""
        return self._view_id.take(pa.array(view))

    def publication_id(self, publication: Ints) -> pa.Array:
        return self._publication_id.take(pa.array(publication))

    def conn_id(self, connection: Ints) -> pa.Array:
        return self._conn_id.take(pa.array(connection))

    def connection(self, connection: Ints) -> dict[str, pa.Array]:
        """conn_id, peer_addr and protocol."""
        rows = pa.array(connection)
        return {
            "conn_id": self._conn_id.take(rows),
            "peer_addr": self._peer_addr.take(rows),
            "protocol": self._protocol.take(rows),
        }

    def client(self, connection: Ints) -> pa.Array:
        """Client names; null for connections that do not speak RTMP."""
        return self._client.take(pa.array(connection))

    def conn_app(self, connection: Ints) -> pa.Array:
        """Apps of connections; null for connections that do not speak RTMP."""
        return self._conn_app.take(pa.array(connection))

    def who(self, view: Ints) -> dict[str, pa.Array]:
        """viewer and auth_subject."""
        rows = pa.array(view)
        return {"viewer": self._viewer.take(rows), "auth_subject": self._subject.take(rows)}

    def publisher(self, publication: Ints) -> pa.Array:
        """auth_subject of who publishes."""
        return self._publisher.take(pa.array(publication))

    def dimensions(self, view: Ints) -> pa.Array:
        """What the URL says of where it came from; null for every fourth."""
        return self._dimensions.take(pa.array(view))

    def identities(self) -> pa.Table:
        """Address, client, viewer and auth_subject of every connection."""
        nobody = pa.nulls(len(self._client) - len(self._viewer), pa.string())
        return pa.table(
            {
                "peer_addr": self._peer_addr,
                "client": self._client,
                "viewer": pa.concat_arrays([self._viewer, nobody]),
                "auth_subject": pa.concat_arrays([self._subject, nobody]),
            }
        )


def same(text: str, rows: int) -> pa.Array:
    return _looked_up(pa.array([text]), np.zeros(rows, np.int64))


def _looked_up(texts: pa.Array, index: Ints) -> pa.Array:
    """As a dictionary array, which is as cheap to write as numbers."""
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), texts)


def _dashed(prefix: pa.Array, number: Ints) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(number).cast(pa.string()), "-")
