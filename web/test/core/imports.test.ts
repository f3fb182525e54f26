import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";

const SOURCE = join(import.meta.dirname, "../../src");

/** The modules that each file below a folder imports, as written. */
function imports(folder: string): [file: string, module: string][] {
  return readdirSync(join(SOURCE, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .flatMap((name) => {
      const text = readFileSync(join(SOURCE, folder, name), "utf8");
      return [...text.matchAll(/from "([^"]+)"/g)].map((found): [string, string] => [join(folder, name), found[1] as string]);
    });
}

describe("imports point down", () => {
  const target = (file: string, module: string): string => relative(SOURCE, join(SOURCE, file, "..", module));

  test("the core imports only the core", () => {
    const found = imports("core");
    expect(found.length).toBeGreaterThan(20);
    expect(found.filter(([file, module]) => !module.startsWith(".") || !target(file, module).startsWith("core/"))).toEqual([]);
  });

  test("the editor imports only the core and the editor", () => {
    const found = imports("editor");
    expect(found.length).toBeGreaterThan(20);
    expect(found.filter(([file, module]) => !module.startsWith(".") || !/^(core|editor)\//.test(target(file, module)))).toEqual([]);
  });
});
