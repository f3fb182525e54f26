// Plane geometry: distances, outlines, polylines. All lengths in px.

export interface XY {
  readonly x: number;
  readonly y: number;
}

/** The position of anything that has one. */
export function point({ x, y }: XY): XY {
  return { x, y };
}

/** Distance between two points. */
export function distance(a: XY, b: XY): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

/** The point of the segment from `a` to `b` that is nearest to `p`: position, fraction along the segment, distance. */
export function nearestOnSegment(p: XY, a: XY, b: XY): { x: number; y: number; t: number; distance: number } {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const squared = dx * dx + dy * dy;
  const t = squared > 0 ? Math.min(1, Math.max(0, ((p.x - a.x) * dx + (p.y - a.y) * dy) / squared)) : 0;
  const [x, y] = [a.x + t * dx, a.y + t * dy];
  return { x, y, t, distance: Math.hypot(p.x - x, p.y - y) };
}

/** True if a point lies inside a closed outline (even-odd rule). */
export function isInPolygon({ x, y }: XY, outline: readonly XY[]): boolean {
  let inside = false;
  for (let k = 0, before = outline.length - 1; k < outline.length; before = k++) {
    const [a, b] = [outline[k] as XY, outline[before] as XY];
    if (a.y > y !== b.y > y && x < ((b.x - a.x) * (y - a.y)) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside;
}

/** Sum of the lengths of the segments. */
export function polylineLength(points: readonly XY[]): number {
  let length = 0;
  for (let k = 1; k < points.length; k++) length += distance(points[k - 1] as XY, points[k] as XY);
  return length;
}

/** Distance between a point and a polyline. */
export function distanceToPolyline(p: XY, line: readonly XY[]): number {
  if (line.length === 1) return distance(p, line[0] as XY);
  let least = Infinity;
  for (let k = 1; k < line.length; k++) {
    least = Math.min(least, nearestOnSegment(p, line[k - 1] as XY, line[k] as XY).distance);
  }
  return least;
}

/** Leave out points of a polyline that are within `tolerance` of the simplified line (Douglas and Peucker). */
export function simplify<P extends XY>(points: readonly P[], tolerance: number): P[] {
  if (points.length < 3) return points.slice();
  const keep = new Uint8Array(points.length);
  keep[0] = keep[points.length - 1] = 1;
  const stack: [number, number][] = [[0, points.length - 1]];
  for (let range = stack.pop(); range !== undefined; range = stack.pop()) {
    const [first, last] = range;
    let [farthest, at] = [tolerance, -1];
    for (let k = first + 1; k < last; k++) {
      const away = nearestOnSegment(points[k] as P, points[first] as P, points[last] as P).distance;
      if (away > farthest) [farthest, at] = [away, k];
    }
    if (at < 0) continue;
    keep[at] = 1;
    stack.push([first, at], [at, last]);
  }
  return points.filter((_, k) => keep[k] === 1);
}

/** Area of the convex hull, px². */
export function convexHullArea(points: readonly XY[]): number {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  const half = (list: readonly XY[]): XY[] => {
    const hull: XY[] = [];
    for (const p of list) {
      while (hull.length >= 2) {
        const [a, b] = [hull[hull.length - 2] as XY, hull[hull.length - 1] as XY];
        if ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x) > 0) break;
        hull.pop();
      }
      hull.push(p);
    }
    hull.pop();
    return hull;
  };
  const hull = [...half(sorted), ...half(sorted.reverse())];
  let twice = 0;
  hull.forEach((a, k) => {
    const b = hull[(k + 1) % hull.length] as XY;
    twice += a.x * b.y - a.y * b.x;
  });
  return Math.abs(twice) / 2;
}
