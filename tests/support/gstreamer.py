"""GStreamer's own RTMP as publisher and player: pipelines as lines of text, run with deadlines.

Owns the check that all elements are there; one that is missing is an error that names its Debian package.
"""

from pathlib import Path

from tests.support.processes import ProgramMissing, find_program, run_to_end

DEADLINE_S = 30.0
ELEMENT_PACKAGES = {
    "flvmux": "gstreamer1.0-plugins-good",
    "aacparse": "gstreamer1.0-plugins-good",
    "h264parse": "gstreamer1.0-plugins-bad",
    "rtmp2sink": "gstreamer1.0-plugins-bad",
    "rtmp2src": "gstreamer1.0-plugins-bad",
}


def require_elements(log_path: Path) -> None:
    """Raise ProgramMissing unless every element that the pipelines need is installed."""
    known = run_to_end([find_program("gst-inspect-1.0", "gstreamer1.0-tools")], log_path, DEADLINE_S)
    for element, package in ELEMENT_PACKAGES.items():
        if f" {element}:" not in known:
            raise ProgramMissing(f"GStreamer's {element}", package)


def pipeline_command(description: str) -> list[str]:
    return [find_program("gst-launch-1.0", "gstreamer1.0-tools"), *description.split()]
