/**
 * Traces along the image: fetches the gray values around two points and finds the path of least cost.
 *
 * The part of the image and the search from the last start are kept, so that the path can follow the pointer.
 */

import type { Backend, Region } from "../api";
import { Ridges, traceBox, TraceSearch } from "../core/trace";
import type { Point, Tracer } from "../editor/types";

/** Longest side of the crop that is traced, px. Larger parts are reduced to it, about what a screen shows. */
const MAX_CROP_PX = 1024;
/** A new crop reaches this far around both points, px, so that the next points are likely in it. */
const ROOM_PX = 160;
/** Pixels that are searched before the page may react again. */
const STEPS = 20_000;

/** A tracer for one image. `size` is its width and height, px; null as long as it is unknown. */
export function imageTracer(backend: Backend, image: string, size: () => { width: number; height: number } | null): Tracer {
  let ridges: { region: Region; found: Promise<Ridges> } | null = null;
  let search: TraceSearch | null = null;
  let searched: Ridges | null = null;

  const around = (from: Point, to: Point): Promise<Ridges> => {
    const known = size();
    if (!known) throw new Error("the image is not loaded yet");
    const bounds: [number, number] = [known.width, known.height];
    const needed = traceBox(from, to, bounds);
    if (!ridges || !contains(ridges.region, needed)) {
      const region: Region = traceBox(from, to, bounds, ROOM_PX);
      const found = backend.crop(image, region, MAX_CROP_PX).then((crop) => {
        const { width, height, data, x0, y0 } = crop;
        return new Ridges({ width, height, data, x0, y0, scale: 1 / crop.scaleX });
      });
      const entry = { region, found };
      ridges = entry;
      found.catch(() => {
        if (ridges === entry) ridges = null;
      });
    }
    return ridges.found;
  };

  return async (from, to, signal) => {
    const here = await around(from, to);
    const same = searched === here && search !== null && search.from.x === from.x && search.from.y === from.y;
    const current: TraceSearch = same && search!.polarity === here.polarity([from, to]) ? search! : new TraceSearch(here, from, to);
    [search, searched] = [current, here];
    while (!current.advance(to, STEPS)) {
      await new Promise((resolve) => setTimeout(resolve));
      if (signal.aborted) return [from, to];
    }
    return current.path(to);
  };
}

function contains(outer: Region, inner: Region): boolean {
  return outer[0] <= inner[0] && outer[1] <= inner[1] && outer[2] >= inner[2] && outer[3] >= inner[3];
}
