import { expect, test } from "vitest";
import { readProof } from "./proof-output.ts";

const head = "moment 2031-02-03T04:05:06.000000Z\nbytes 7897615\n";
const hex = (text: string): string => Buffer.from(text).toString("hex");

test("what was found is read, whatever tables are called", () => {
  const odd = "a b\nc'\"ü";
  expect(readProof(`${head}table ${hex("public")} ${hex(odd)} 12\n`)).toEqual({
    coveredAt: "2031-02-03T04:05:06.000000Z",
    bytes: 7_897_615n,
    tables: [{ schema: "public", name: odd, rows: 12n }],
  });
  expect(readProof(head)?.tables).toEqual([]);
});

test.each([
  { what: "nothing", text: "" },
  { what: "no moment", text: "bytes 1\nbytes 2\n" },
  { what: "an end in the middle of a line", text: `${head}table 61 62` },
  { what: "a name that is not in digits", text: `${head}table public 62 1\n` },
  { what: "an endless name", text: `${head}table ${"61".repeat(257)} 62 1\n` },
  { what: "a word more", text: `${head}table 61 62 1 1\n` },
  { what: "another line", text: `${head}WARNING:  odd\n` },
  { what: "too many tables", text: `${head}${"table 61 62 1\n".repeat(2_001)}` },
])("output with $what is no proof", ({ text }) => {
  expect(readProof(text)).toBeNull();
});
