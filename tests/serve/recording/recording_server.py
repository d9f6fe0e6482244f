"""A server that records, as a process of its own: `python -m tests.serve.recording.recording_server FOLDER`.

Prints its port, and a line for each recording that begins. Ends on SIGTERM once everything is written.
"""

import signal
import sys
from pathlib import Path

from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.manifest import SegmentRow
from penstock.serve.recording.recorder import Recorder, RecordingSettings
from penstock.serve.server import Server
from penstock.serve.settings import ServerSettings
from tests.support.lone_worker import listen, lone_registry, port_of


class Printer(RecordingListener):
    def recording_started(self, row: SegmentRow) -> None:
        print(f"recording {row.stream}", flush=True)  # noqa: T201

    def segment_closed(self, row: SegmentRow) -> None:
        print(f"{row.status} {row.stream}", flush=True)  # noqa: T201


def main(folder: Path) -> None:
    settings = ServerSettings()
    recorder = Recorder(RecordingSettings(folder, ("*/*",)), settings.connection.chunk_size, [Printer()])
    recorder.start()
    server = Server(settings, lone_registry(), recorder)
    listener = listen(server)
    server.reactor.on_signal(signal.SIGTERM, server.shut_down)
    print(f"port {port_of(listener)}.", flush=True)  # noqa: T201
    server.run()
    listener.close()
    print("complete" if recorder.close(10.0) else "incomplete", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
