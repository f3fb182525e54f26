"""Run the editor's server on this computer until Ctrl-C."""

from __future__ import annotations

import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from treeformer._util.files import check_writable, remove_leftovers
from treeformer.errors import TreeformerError
from treeformer.web.app import create_app
from treeformer.web.folder import Workspace
from treeformer.web.services import Services

HOST = "127.0.0.1"
SHUTDOWN_S = 3
# Into this part of the page an image is fitted on a common screen, px. A smaller one is made from the same level.
LIKELY_SCREEN = (1200, 1000)


def serve(
    workspace: Workspace,
    *,
    model: str = "default",
    port: int = 0,
    browser: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the editor until Ctrl-C."""
    check_writable(workspace.results_root)
    remove_leftovers(workspace.results_root)
    listener = _listen(port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    services = Services.of(workspace, model)
    app = create_app(services, token=token, port=port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    address = f"http://{HOST}:{port}/?token={token}"
    threading.Thread(target=warm_up, args=(services,), name="treeformer-warm-up", daemon=True).start()
    announce(address)
    if browser:  # connections wait until the server accepts them; a text browser would block
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with listener:
        _end_with_terminal()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn ends orderly, then raises the signal again
            return


def warm_up(services: Services) -> None:
    """Read what the page shows first, while the browser starts. What fails here is reported when the page asks."""
    with suppress(TreeformerError, OSError, MemoryError):
        first = services.workspace.worst_first()[:1]
        for entry in first:
            services.pyramids.prepare(entry, LIKELY_SCREEN)
        services.predictions.model_info()


def _end_with_terminal() -> None:
    """End orderly if the terminal is closed: a training is a session of its own, which the system does not end."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # otherwise ignored, as with nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # There, SO_REUSEADDR lets two servers share a port, and each request reaches one of them.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:  # a port can be used again at once after its server has ended
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise TreeformerError(f"cannot listen on port {port}: {reason}; choose another with --port") from None
    return listener
