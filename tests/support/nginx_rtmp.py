"""Debian's nginx with the rtmp module, as the server that Penstock's clients and the real programs are tried against.

Owns its configuration, its temporary folder and its process. One nginx process, not a master with workers: a single
pid to stop, and no change of user, so that it runs the same as root and as anyone else.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import ProgramMissing, RunningProgram, find_program, free_port, running

START_DEADLINE_S = 10.0
MODULE_PACKAGE = "libnginx-mod-rtmp"
MODULE_PATHS = (Path("/usr/lib/nginx/modules/ngx_rtmp_module.so"), Path("/usr/share/nginx/modules/ngx_rtmp_module.so"))

CONFIG = """\
load_module {module_path};
daemon off;
master_process off;
worker_processes 1;
pid {work_dir}/nginx.pid;
error_log {work_dir}/error.log {log_level};
events {{ worker_connections 256; }}
rtmp {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        chunk_size {chunk_size};
        application live {{
            live on;
            {push_line}
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class NginxRtmp:
    """A running nginx. `url` is that of its one application, without a stream name."""

    port: int
    log_path: Path
    program: RunningProgram

    @property
    def url(self) -> str:
        return f"rtmp://127.0.0.1:{self.port}/live"


@contextmanager
def nginx_rtmp(
    *, chunk_size: int = 4096, push_url: str | None = None, log_level: str = "info", port: int | None = None
) -> Iterator[NginxRtmp]:
    """Run nginx for the length of the block. With `push_url` it also publishes each stream it gets to that server."""
    nginx_path = find_program("nginx", "nginx-light")
    module_path = _find_module()
    listen_port = free_port() if port is None else port
    with tempfile.TemporaryDirectory(prefix="nginx-rtmp-") as folder:
        work_dir = Path(folder)
        config_path = work_dir / "nginx.conf"
        config_path.write_text(
            CONFIG.format(
                module_path=module_path,
                work_dir=work_dir,
                log_level=log_level,
                port=listen_port,
                chunk_size=chunk_size,
                push_line="" if push_url is None else f"push {push_url};",
            ),
            encoding="utf-8",
        )
        error_log_path = work_dir / "error.log"
        # -e: without it nginx first opens the log in /var/log/nginx, which only root may.
        command = [nginx_path, "-e", str(error_log_path), "-p", folder, "-c", str(config_path)]
        with running(command, work_dir / "output.log") as program:
            program.wait_for_port(listen_port, START_DEADLINE_S)
            yield NginxRtmp(listen_port, error_log_path, program)


def _find_module() -> Path:
    for path in MODULE_PATHS:
        if path.exists():
            return path
    raise ProgramMissing("nginx's rtmp module", MODULE_PACKAGE)
