// What a network returns for one tile, and the part of it that counts.

/** Output for one input image, float32, with K node candidates. */
export interface RawOutput {
  /** (K,) probabilities. */
  readonly nodeScore: Float32Array;
  /** (K,2) px of the input. */
  readonly points: Float32Array;
  /** (K,K) f⁻ − f⁺, negative for edges that are more likely than not. */
  readonly edgeCost: Float32Array;
  /** (K,) log-odds of being a root. */
  readonly rootLogit: Float32Array;
  /** (K,3) log(r + 0.5) with the radius r in px of the input, and the direction to the parent; null without. */
  readonly attributes: Float32Array | null;
}

/** The rows of some candidates. */
export function select(raw: RawOutput, kept: readonly number[]): RawOutput {
  const count = raw.nodeScore.length;
  const rows = (values: Float32Array, width: number): Float32Array => {
    const taken = new Float32Array(kept.length * width);
    kept.forEach((k, at) => taken.set(values.subarray(k * width, (k + 1) * width), at * width));
    return taken;
  };
  const edgeCost = new Float32Array(kept.length ** 2);
  kept.forEach((i, row) =>
    kept.forEach((j, column) => {
      edgeCost[row * kept.length + column] = raw.edgeCost[i * count + j] as number;
    }),
  );
  return {
    nodeScore: rows(raw.nodeScore, 1),
    points: rows(raw.points, 2),
    edgeCost,
    rootLogit: rows(raw.rootLogit, 1),
    attributes: raw.attributes === null ? null : rows(raw.attributes, 3),
  };
}
