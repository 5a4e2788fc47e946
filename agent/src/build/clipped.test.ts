import { expect, test } from "vitest";
import { createClipReader } from "./clipped.ts";

const clipped = (limit: string) => Buffer.from(`\n[output clipped, log limit ${limit} reached]\n`);
const faster = /^\[the node's container engine passes on 200KiB\/s of a step's output, and left out what came faster/;
const bytes = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((part) => Buffer.from(part)));
const read = (...chunks: Buffer[]) => {
  const reader = createClipReader();
  return Buffer.concat(chunks.map((chunk) => reader.take(chunk)))
    .toString("utf8")
    .split("\n");
};
const bike = Buffer.from("🚲");

test("output that is whole stays as it is, however it was cut into pieces", () => {
  const reader = createClipReader();
  const all = [bytes("one\ntw", bike.subarray(0, 1)), bytes(bike.subarray(1), "o\n"), bytes("\x80\n")];
  expect(Buffer.concat(all.map((chunk) => reader.take(chunk)))).toEqual(Buffer.concat(all));
});

test.each([1, 2, 3])("a character that was cut behind byte %i is gone on both sides of the gap", (at) => {
  const lines = read(bytes("one ", bike.subarray(0, at), clipped("200KiB/s")), bytes(bike.subarray(at), " two\n"));
  expect(lines).toEqual(["one ", expect.stringMatching(faster), " two", ""]);
});

test.each([1, 2, 3])("the same when the gap begins where a piece ends, behind byte %i", (at) => {
  const lines = read(bytes("one ", bike.subarray(0, at)), clipped("200KiB/s"), bytes(bike.subarray(at), " two\n"));
  expect(lines).toEqual(["one ", expect.stringMatching(faster), " two", ""]);
});

test("a whole character before the gap stays", () => {
  for (const text of ["a", "é", "…", "🚲"]) expect(read(bytes(text, clipped("200KiB/s")))[0]).toBe(text);
});

test("of a step that reached the end of what is passed on, that is said", () => {
  expect(read(bytes("one\n", clipped("2MiB")))).toContainEqual(
    expect.stringMatching(/passes on 2MiB of a step's output, and leaves out the rest/),
  );
});

test("a program that only talks of it is let speak", () => {
  const said = "[output clipped, log limit 2MiB reached] said the manual\n";
  expect(read(bytes("\n", said)).join("\n")).toBe(`\n${said}`);
});
