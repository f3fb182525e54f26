"""The HTTP interface of the editor: reads the parameters of a request, calls, answers. Errors are one sentence.

Every path of a request passes `Guard` first. An `image` is looked up in the list of the workspace.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

import treeformer
from treeformer.errors import TreeformerError
from treeformer.inference.views import MAX_VIEWS, check_views
from treeformer.web import series, tables
from treeformer.web.documents import checked_revision, checked_skeleton
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry
from treeformer.web.parameters import Body, finite_number, json_body, region_of, whole_number
from treeformer.web.security import (
    MAX_BODY_BYTES,
    BodyTooLargeError,
    Guard,
    error_response,
    json_response,
    resolve_inside,
)
from treeformer.web.services import Services

NO_PAGE = "<!doctype html><title>treeformer</title>The page of the editor was not built: run `make web`."
# The registry of Windows may name other types.
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# Images seldom change while they are edited. The browser asks again after this time.
IMAGE_CACHE = "private, max-age=300"
LARGEST_WORKING_SIZE = 100_000
LARGEST_SCREEN = 100_000

Handler = Callable[[Services, Request, Body], Response]


def create_app(services: Services, *, token: str, port: int, max_body_bytes: int = MAX_BODY_BYTES) -> Starlette:
    """Make the application."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        yield
        await run_in_threadpool(services.training.close)
        await run_in_threadpool(services.predictions.close)

    def route(path: str, method: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await json_body(request) if method in ("PUT", "POST") else {}
            return await run_in_threadpool(handler, services, request, body)

        return Route(path, _with_errors(endpoint), methods=[method])

    return Starlette(
        routes=[*(route(*entry) for entry in ROUTES), route("/{path:path}", "GET", _static_file)],
        middleware=[Middleware(Guard, token=token, port=port, max_body_bytes=max_body_bytes)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )


# ---- handlers ------------------------------------------------------------------------------------


def _session(services: Services, _request: Request, _body: Body) -> Response:
    return json_response(
        {
            "version": treeformer.__version__,
            "images_root": str(services.workspace.images_root),
            "results_root": str(services.workspace.results_root),
            "model": services.predictions.model_info(),
            "low_confidence_threshold": services.predictions.low_confidence_threshold(),
            "max_views": MAX_VIEWS,
        }
    )


def _images(services: Services, _request: Request, _body: Body) -> Response:
    try:
        entries = services.workspace.refresh()
    except TreeformerError:  # the last image was removed
        entries = []
    drafted = services.store.drafts.keys()
    rows = [
        {"image": entry.image, **asdict(summary), "has_draft": services.store.drafts.has(entry, drafted)}
        for entry, summary in zip(entries, services.workspace.summaries(entries), strict=True)
    ]
    return json_response({"images": rows})


def _series(services: Services, _request: Request, _body: Body) -> Response:
    found = series.dates(services.workspace, services.workspace.entries())
    return json_response({"dates": [date.shown() for date in found]})


def _thumbnail(services: Services, request: Request, _body: Body) -> Response:
    return _image_response(services.pyramids.thumbnail(_entry(services, request)), "image/jpeg")


def _pyramid(services: Services, request: Request, _body: Body) -> Response:
    entry = _entry(services, request)
    if "width" in request.query_params:
        width, height = whole_number(request, "width"), whole_number(request, "height")
        if not (0 < width <= LARGEST_SCREEN and 0 < height <= LARGEST_SCREEN):
            raise RequestError("width and height must be those of a screen.")
        services.pyramids.prepare(entry, (width, height))
    return json_response(services.pyramids.describe(entry))


def _tile(services: Services, request: Request, _body: Body) -> Response:
    entry = _entry(services, request)
    place = (whole_number(request, name) for name in ("level", "x", "y"))
    return _image_response(services.pyramids.tile(entry, *place), "image/jpeg")


def _crop(services: Services, request: Request, _body: Body) -> Response:
    entry = _entry(services, request)
    left, top, right, bottom = (
        finite_number(request.query_params.get(name), name) for name in ("x0", "y0", "x1", "y1")
    )
    data = services.pyramids.crop(entry, (left, top, right, bottom), whole_number(request, "max"))
    return _image_response(data, "image/png")


def _load_skeleton(services: Services, request: Request, _body: Body) -> Response:
    return json_response(services.store.load(_entry(services, request)))


def _save_skeleton(services: Services, _request: Request, body: Body) -> Response:
    entry = services.workspace.entry(body.get("image"))
    window, accepted = body.get("window"), body.get("accepted", False)
    if type(accepted) is not bool:
        raise RequestError("accepted must be true or false.")
    revision = checked_revision(body.get("revision"))
    recovered = _recovered(body.get("recovered"))
    answer = services.store.save(
        entry, body.get("document"), revision, accepted=accepted, window=window, recovered=recovered
    )
    return json_response(answer)


def _recovered(value: object) -> tuple[str, float] | None:
    """Return window and time of the draft that a document continues."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RequestError("recovered must be an object.")
    return str(value.get("window", "")), finite_number(value.get("time"), "recovered.time")


def _load_draft(services: Services, request: Request, _body: Body) -> Response:
    entry, window = _entry(services, request), request.query_params.get("window")
    for draft in services.store.drafts.of(entry):
        if draft.window == window:
            return json_response({"document": draft.document, "revision": draft.revision, "time": draft.time})
    raise RequestError("There is no such draft.", 404)


def _save_draft(services: Services, _request: Request, body: Body) -> Response:
    entry = services.workspace.entry(body.get("image"))
    revision = checked_revision(body.get("revision"))
    services.store.save_draft(entry, body.get("document"), revision, body.get("window", ""))
    return json_response({})


def _delete_draft(services: Services, request: Request, _body: Body) -> Response:
    text = request.query_params.get("time")
    stored = None if text is None else finite_number(text, "time")
    services.store.delete_draft(_entry(services, request), request.query_params.get("window", ""), stored)
    return json_response({})


def _predict(services: Services, _request: Request, body: Body) -> Response:
    entry = services.workspace.entry(body.get("image"))
    size = body.get("working_size")
    if not (size in (None, "full", "auto") or (type(size) is int and 1 <= size <= LARGEST_WORKING_SIZE)):
        raise RequestError('working_size must be a number of pixels, "full", "auto" or null.')
    views = body.get("views", 1)
    check_views(views)
    job = services.predictions.predict(entry, size, region_of(body.get("region")), views)
    return json_response({"job": job}, 202)


def _predict_missing(services: Services, _request: Request, _body: Body) -> Response:
    return json_response({"job": services.predictions.predict_missing()}, 202)


def _predict_again(services: Services, _request: Request, _body: Body) -> Response:
    return json_response({"job": services.predictions.predict_again()}, 202)


def _next(services: Services, _request: Request, _body: Body) -> Response:
    return json_response({"images": services.ranking.images()})


def _training(services: Services, _request: Request, _body: Body) -> Response:
    return json_response(services.training.status())


def _start_training(services: Services, _request: Request, body: Body) -> Response:
    minutes = body.get("max_minutes")
    options = {name: body.get(name, False) for name in ("unannotated", "include_unaccepted")}
    for name, value in options.items():
        if type(value) is not bool:
            raise RequestError(f"{name} must be true or false.")
    services.training.start(None if minutes is None else finite_number(minutes, "max_minutes"), **options)
    return json_response(services.training.status(), 202)


def _gpu(services: Services, _request: Request, _body: Body) -> Response:
    return json_response({"gpu": services.training.has_gpu()})


def _stop_training(services: Services, _request: Request, _body: Body) -> Response:
    services.training.stop()
    return json_response(services.training.status())


def _jobs(services: Services, _request: Request, _body: Body) -> Response:
    return json_response({"jobs": services.predictions.jobs()})


def _cancel_job(services: Services, request: Request, _body: Body) -> Response:
    services.predictions.cancel(request.query_params.get("job"))
    return json_response({})


def _traits(_services: Services, _request: Request, body: Body) -> Response:
    scale = body.get("px_per_mm")
    skeleton = checked_skeleton(body.get("document"))
    return json_response(tables.traits_of(skeleton, None if scale is None else finite_number(scale, "px_per_mm")))


def _traits_table(services: Services, request: Request, _body: Body) -> Response:
    text = request.query_params.get("px_per_mm") or None
    scale = None if text is None else finite_number(text, "px_per_mm")
    table = tables.folder_table(services.workspace, services.store, scale)
    content = table.to_csv(index=False).encode("utf-8", "backslashreplace")
    headers = {"Content-Disposition": 'attachment; filename="traits.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _static_file(services: Services, request: Request, _body: Body) -> Response:
    name = request.path_params["path"] or "index.html"
    if name.startswith("api/"):
        raise RequestError("There is no such request.", 404)
    if not services.static.is_dir():
        if name == "index.html":
            return HTMLResponse(NO_PAGE)
        raise RequestError("There is no such file.", 404)
    path = resolve_inside(services.static.resolve(), name)
    if not path.is_file():
        raise RequestError("There is no such file.", 404)
    return FileResponse(path, media_type=MEDIA_TYPES.get(path.suffix), headers={"Cache-Control": "no-cache"})


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("/api/session", "GET", _session),
    ("/api/images", "GET", _images),
    ("/api/series", "GET", _series),
    ("/api/thumbnail", "GET", _thumbnail),
    ("/api/pyramid", "GET", _pyramid),
    ("/api/tile", "GET", _tile),
    ("/api/crop", "GET", _crop),
    ("/api/skeleton", "GET", _load_skeleton),
    ("/api/skeleton", "PUT", _save_skeleton),
    ("/api/draft", "GET", _load_draft),
    ("/api/draft", "PUT", _save_draft),
    ("/api/draft", "DELETE", _delete_draft),
    ("/api/predict", "POST", _predict),
    ("/api/predict-missing", "POST", _predict_missing),
    ("/api/predict-again", "POST", _predict_again),
    ("/api/next", "GET", _next),
    ("/api/training", "GET", _training),
    ("/api/training", "POST", _start_training),
    ("/api/training", "DELETE", _stop_training),
    ("/api/gpu", "GET", _gpu),
    ("/api/jobs", "GET", _jobs),
    ("/api/jobs", "DELETE", _cancel_job),
    ("/api/traits", "POST", _traits),
    ("/api/traits.csv", "GET", _traits_table),
)


def _entry(services: Services, request: Request) -> Entry:
    return services.workspace.entry(request.query_params.get("image"))


# ---- answers -------------------------------------------------------------------------------------


def _image_response(data: bytes, media_type: str) -> Response:
    return Response(data, media_type=media_type, headers={"Cache-Control": IMAGE_CACHE})


def _with_errors(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turn the errors of a handler into answers."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RequestError as error:
            return error_response(error)
        except TreeformerError as error:
            return error_response(RequestError(str(error), 422))
        except OSError as error:
            name = Path(str(error.filename)).name if error.filename else "a file"
            return error_response(RequestError(f"{name}: {error.strerror or error}.", 500))
        except MemoryError:
            return error_response(RequestError("There is not enough memory.", 500))
        except ClientDisconnect:
            return Response(status_code=400)
        except BodyTooLargeError:  # the guard answers
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return error_response(RequestError("An error in the server; its terminal shows more.", 500))

    return answer


async def _http_error(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return error_response(RequestError("There is no such request.", status))
