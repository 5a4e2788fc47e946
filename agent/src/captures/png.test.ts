import { expect, test } from "vitest";
import { sizeOfPng } from "./png.ts";

const one = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=",
  "base64",
);

test.each([
  { what: "a picture", bytes: one, size: { width: 1, height: 1 } },
  { what: "one that broke off", bytes: one.subarray(0, -1), size: null },
  { what: "a page", bytes: Buffer.from("<!doctype html><p>".padEnd(100)), size: null },
  { what: "nothing", bytes: Buffer.alloc(0), size: null },
])("$what", ({ bytes, size }) => {
  expect(sizeOfPng(bytes)).toEqual(size);
});
