import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromDocument } from "../../src/core/document.ts";
import { calibrate } from "../../src/predict/calibration.ts";
import { chooseWorkingSize, moveBases } from "../../src/predict/autoScale.ts";
import { directionCost, radiusPx } from "../../src/predict/attributes.ts";
import { forestDocument } from "../../src/predict/document.ts";
import { suppressDuplicates } from "../../src/predict/duplicates.ts";
import { csvText, decimalText, jsonText, rsmlText, traitTable } from "../../src/predict/files.ts";
import { readHeader } from "../../src/predict/image/header.ts";
import { closePairs, rint, roundTo } from "../../src/predict/numeric.ts";
import type { Pair } from "../../src/predict/numeric.ts";
import { cutTile } from "../../src/predict/pipeline.ts";
import { postprocess } from "../../src/predict/postprocess.ts";
import { pixelRegion } from "../../src/predict/region.ts";
import { predictionOptions } from "../../src/predict/settings.ts";
import { spanningTree } from "../../src/predict/spanning.ts";
import { tileGrid, workingScale } from "../../src/predict/tiles.ts";

const forest = {
  x: [0, 0, 0, 50],
  y: [0, 40, 80, 60],
  edges: [[0, 1], [1, 2], [1, 3]] as Pair[],
  roots: [0],
  nodeScore: [0.9, 0.8, 0.7, 0.6],
  edgeScore: [0.9, 0.8, 0.25],
  radius: null,
  imageSize: [100, 100] as const,
};
const keepAll = { edgeThreshold: 0, unsurePlants: false, calibration: null, lowConfidence: null };

describe("numbers", () => {
  it("rounds as NumPy does", () => {
    expect([0.5, 1.5, 2.5, -0.5, -1.5, 2.4].map(rint)).toEqual([0, 2, 2, 0, -2, 2]);
    expect(roundTo(0.125, 2)).toBe(0.12);
  });

  it("writes decimals without exponents that read back as the same number", () => {
    expect([989, 0.1, 1e-7, 1.5e-7, 1e21, -2.5e22].map(decimalText)).toEqual([
      "989", "0.1", "0.0000001", "0.00000015", "1000000000000000000000", "-25000000000000000000000",
    ]);
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(decimalText(value)).not.toContain("e");
        expect(Number(decimalText(value)) === value).toBe(true);
      }),
    );
  });

  it("finds the same close pairs as a comparison of all points", () => {
    const place = fc.double({ min: -30, max: 30, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(place, place), { maxLength: 40 }), (points) => {
        const all: string[] = [];
        points.forEach(([x, y], j) =>
          points.slice(0, j).forEach(([u, v], i) => {
            if ((x - u) * (x - u) + (y - v) * (y - v) <= 36) all.push(`${i},${j}`);
          }),
        );
        const found = closePairs(points.map(([x]) => x), points.map(([, y]) => y), 6);
        expect(found.map(String).sort()).toEqual(all.sort());
      }),
    );
  });
});

describe("decoding", () => {
  it("takes the cheapest edges, equal costs in the order of their nodes", () => {
    expect(spanningTree([[0, 1], [0, 2], [1, 2]], [1, 5, 2], 3)).toEqual([0, 2]);
    expect(spanningTree([[0, 1], [0, 2], [1, 2]], [1, 1, 1], 3)).toEqual([0, 1]);
    expect(spanningTree([[0, 1], [0, 2], [1, 2]], [Infinity, 5, NaN], 3)).toEqual([1]);
  });

  it("suppresses duplicates that share a neighbor", () => {
    const pairs: Pair[] = [[0, 1], [0, 2], [1, 2]];
    const nodes = [[0, 3, 50], [0, 0, 0]] as const;
    expect(suppressDuplicates([0.7, 0.4, 0.4], ...nodes, pairs, [2, -3, -1], 0.3)).toEqual([0.7, 0, 0.4]);
    expect(suppressDuplicates([0.7, 0.4, 0.4], ...nodes, pairs, [2, 3, -1], 0.3)).toEqual([0.7, 0.4, 0.4]);
  });

  it("calibrates scores", () => {
    const scores = [0, 0.2, 0.9].map((score) => roundTo(calibrate(score, 0.9, [1, 0.5, 1, 0]), 2));
    expect(scores).toEqual([0, 0.58, 0.96]);
  });

  it("converts radii and charges edges that contradict directions", () => {
    expect(radiusPx([Math.log(2.5), 0, 1], 3).map((r) => roundTo(r, 6))).toEqual([6]);
    const down = [0, 0, 0, 0, 0, -1, 0, 0, -1];
    expect(directionCost([0, 0, 9], [0, 9, 9], [[0, 1], [1, 2]], down, 8)).toEqual([0, 8]);
  });

  it("cuts unlikely edges and drops the nodes that are left alone", () => {
    const cut = postprocess(forest, { ...keepAll, edgeThreshold: 0.5, unsurePlants: true });
    expect([cut.x.length, cut.edges]).toEqual([3, [[0, 1], [1, 2]]]);
  });

  it("continues an axis straight on", () => {
    const { axes, edgeAxis } = postprocess(forest, keepAll);
    expect(axes).toEqual([{ nodes: [0, 1, 2], parent: null, plant: 0 }, { nodes: [1, 3], parent: 0, plant: 0 }]);
    expect(edgeAxis).toEqual([0, 0, 1]);
  });

  it("chooses the working size from the distance between keypoints and moves roots to bases", () => {
    const line = { ...forest, x: [0, 40], y: [0, 0], edges: [[0, 1]] as Pair[], imageSize: [4000, 3000] as const };
    const rule = { signal: "spacing", target_px: 10, max_doublings: 3 } as const;
    expect(chooseWorkingSize(line, rule, 500, 1000)).toBe(1000);
    expect(moveBases(forest, [[1, 79], [0, 1]]).roots).toEqual([2]);
    expect(moveBases(forest, [[100, 100]]).roots).toEqual([0]);
  });
});

describe("tiles", () => {
  it("cover an image and keep its scale", () => {
    expect(tileGrid([1000, 300], 512).map(({ left, right }) => [left, right])).toEqual([[0, 512], [244, 756], [488, 1000]]);
    expect([workingScale([4000, 3000], 1000, 512), workingScale([128, 64], 1000, 512)]).toEqual([0.25, 4]);
  });

  it("are padded with the median color of their border", () => {
    const rgb = Uint8Array.from([10, 0, 0, 20, 0, 0, 10, 9, 0, 20, 8, 0]);
    const input = cutTile({ width: 2, height: 2, rgb }, tileGrid([2, 2], 4)[0]!, 4);
    expect([...input.subarray(0, 9)]).toEqual([10, 0, 0, 20, 0, 0, 15, 4, 0]);
  });

  it("refuse regions that are too small", () => {
    expect(pixelRegion([-5, 2.4, 30.6, 400], [100, 90])).toEqual([0, 2, 31, 90]);
    expect(pixelRegion([0, 0, 7, 50], [100, 90])).toBeNull();
  });
});

describe("files", () => {
  const document = forestDocument(postprocess(forest, keepAll), "a&b.png", { model: "default" });

  it("are read back", () => {
    expect(fromDocument(JSON.parse(jsonText(document))).size).toBe(4);
    const rsml = rsmlText(document, "key", "2026-01-01T00:00:00Z");
    expect(rsml).toContain("<name>a&amp;b.png</name>");
    expect(rsml.match(/<point /g)).toHaveLength(5);
  });

  it("state the scale in mm", () => {
    const scaled = { ...document, metadata: { editor: { px_per_mm: 4 } } };
    expect(rsmlText(scaled, "key", "now")).toContain("<unit>mm</unit>\n    <resolution>4</resolution>");
    expect(traitTable(scaled, "a.png", null).rows[0]).toMatchObject({ unit: "mm", primary_length: 20 });
  });

  it("quote cells that a spreadsheet would evaluate", () => {
    const [, row] = csvText([traitTable(document, '=HYPERLINK("x"),1', null)]).split("\n");
    expect(row).toMatch(/^"'=HYPERLINK\(""x""\),1",0,px,/);
  });
});

describe("headers", () => {
  const bytes = (text: string): Uint8Array => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  it("tell images from other files", () => {
    expect(readHeader(bytes("hello, this is text")).format).toBeNull();
    expect(readHeader(bytes("\xff\xd8\xff\xe0")).format).toBe("jpeg");
    expect(readHeader(bytes("II*\0")).format).toBe("tiff");
    expect(readHeader(bytes("")).format).toBeNull();
    fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (data) => void readHeader(data)));
  });
});

describe("settings", () => {
  const settings = {
    version: "1", sha256: "", input_size: 512, working_size: 1024, node_threshold: 0.3, root_threshold: 0.1,
    candidate_threshold: 0.2, tile_step: 44,
  };
  it("use the rule of the model if it has one", () => {
    expect(predictionOptions(settings, null, "").workingPx).toBe(1024);
    expect(predictionOptions(settings, "full", "").workingPx).toBeNull();
    expect(() => predictionOptions(settings, "auto", "")).toThrow("scale rule");
    const rule = { signal: "spacing", target_px: 13, max_doublings: 2 } as const;
    expect(predictionOptions({ ...settings, scale_rule: rule }, null, "").scaleRule).toEqual(rule);
  });
});
