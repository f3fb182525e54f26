/** The scale bar in the corner of the canvas. */

/** A round length of 40 to 120 CSS px for the scale bar. */
export function scaleBar(scale: number, pxPerMm: number | null): { px: number; label: string } {
  const perUnit = scale * (pxPerMm ?? 1);
  const rough = 80 / perUnit;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [5, 2, 1].find((s) => s * power <= rough * 1.3) ?? 1;
  const length = step * power;
  const text = length >= 1 || pxPerMm === null ? `${Number(length.toPrecision(3))}` : length.toPrecision(1);
  return { px: length * perUnit, label: `${text} ${pxPerMm === null ? "px" : "mm"}` };
}
