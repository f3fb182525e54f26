/** Traces along the image: fetches the gray values between two points and finds the path of least cost. */

import type { Backend, Region } from "../api";
import { trace, traceBox } from "../core/trace";
import type { Tracer } from "../editor/types";

/** Longest side of the crop that is traced, px. */
const MAX_CROP_PX = 640;

/** A tracer for one image. `size` is its width and height, px; null as long as it is unknown. */
export function imageTracer(backend: Backend, image: string, size: () => { width: number; height: number } | null): Tracer {
  return async (from, to, signal) => {
    const known = size();
    if (!known) throw new Error("the image is not loaded yet");
    const region: Region = traceBox(from, to, [known.width, known.height]);
    const crop = await backend.crop(image, region, MAX_CROP_PX);
    if (signal.aborted) return [from, to];
    const { width, height, data, x0, y0 } = crop;
    return trace({ width, height, data, x0, y0, scale: 1 / crop.scaleX }, from, to);
  };
}
