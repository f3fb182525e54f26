// Checks of the values in a document. Each returns the value with its type or raises DocumentError, whose message
// names the place of the value.

import type { Json, JsonObject } from "../graph.ts";

/** A document that cannot be read. The message names the place, as in `nodes[3]`. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
}

/** Raise DocumentError. */
export function fail(message: string): never {
  throw new DocumentError(message);
}

/** True if a value is an object, not a list and not null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An object. */
export function object(value: unknown, place: string): JsonObject {
  return isObject(value) ? value : fail(`${place} must be an object`);
}

/** A list. A missing one has a message of its own, because most lists are required. */
export function list(value: unknown, place: string): Json[] {
  if (value === undefined) fail(`${place} are missing`);
  return Array.isArray(value) ? (value as Json[]) : fail(`${place} must be a list`);
}

/** The same list if it has `count` entries. */
export function sized(values: Json[], count: number, place: string): Json[] {
  return values.length === count ? values : fail(`${place} has ${values.length} entries, not ${count}`);
}

/** A finite number from `least` to `most`. */
export function number(value: unknown, place: string, least = -Infinity, most = Infinity): number {
  if (typeof value !== "number" || !Number.isFinite(value)) return fail(`${place} must be a number`);
  return value >= least && value <= most ? value : fail(`${place} is ${value}`);
}

/** A whole number. */
export function integer(value: unknown, place: string): number {
  return Number.isSafeInteger(value) ? (value as number) : fail(`${place} must be a whole number`);
}

/** A whole number of at least 0. */
export function index(value: unknown, place: string): number {
  const entry = integer(value, place);
  return entry >= 0 ? entry : fail(`${place} is ${entry}`);
}

/** A string. */
export function text(value: unknown, place: string): string {
  return typeof value === "string" ? value : fail(`${place} must be text`);
}
