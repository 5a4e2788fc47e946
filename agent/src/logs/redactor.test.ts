import { expect, test } from "vitest";
import { createRedactor, redact } from "./redactor.ts";

const inPieces = (text: string, size: number, values: string[]): string => {
  const redactor = createRedactor(values);
  let out = "";
  for (let at = 0; at < text.length; at += size) out += redactor.push(text.slice(at, at + size));
  return out + redactor.end();
};

test.each([
  { when: "a value stands in a line", values: ["s3cret-value"], text: "a s3cret-value b", shows: "a [redacted] b" },
  { when: "it comes twice in a row", values: ["abcdef"], text: "abcdefabcdef", shows: "[redacted][redacted]" },
  { when: "it spans lines", values: ["line one\nline two"], text: "x line one\nline two y", shows: "x [redacted] y" },
  { when: "it is short", values: ["short"], text: "a short word", shows: "a short word" },
  {
    when: "one value begins another",
    values: ["abcdef", "abcdefgh"],
    text: "abcdefgh abcdefg",
    shows: "[redacted] [redacted]g",
  },
  { when: "values overlap", values: ["abcdef", "efghij"], text: "abcdefghij", shows: "[redacted]ghij" },
  {
    when: "it is full of marks",
    values: [`a.*+?^\${}()|[]\\/-b`],
    text: `<a.*+?^\${}()|[]\\/-b>`,
    shows: "<[redacted]>",
  },
  { when: "only its beginning comes", values: ["abcdefgh"], text: "abcdefg", shows: "abcdefg" },
  { when: "its beginning repeats", values: ["aaaaab"], text: "aaaaaaab", shows: "aa[redacted]" },
  { when: "nothing is secret", values: [], text: "text", shows: "text" },
])("when $when", ({ values, text, shows }) => {
  expect(redact(text, values)).toBe(shows);
  for (let size = 1; size <= text.length; size += 1) expect(inPieces(text, size, values)).toBe(shows);
});

test("what cannot be a secret any more is shown at once", () => {
  const redactor = createRedactor(["s3cret-value"]);
  expect(redactor.push("progress 10 %\n")).toBe("progress 10 %\n");
  expect(redactor.push("s3cr")).toBe("");
  expect(redactor.push("ets\n")).toBe("s3crets\n");
});

test("a long text with many values takes no time to speak of", () => {
  const values = Array.from({ length: 1_000 }, (_, index) => `value-${index}-${"x".repeat(200)}`);
  // What it took of the processor: others on the machine may make it last.
  const before = process.cpuUsage();
  const redactor = createRedactor(values);
  for (let line = 0; line < 10_000; line += 1) redactor.push(`value of line ${line} and more text behind it\n`);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(5_000);
});

test.each([
  { what: "values that begin in each other", values: ["abcdef", `f${"abcdef".repeat(5_000)}`], text: "abcdef" },
  { what: "a value that almost begins everywhere", values: [`${"a".repeat(32_000)}b`], text: "aaaaaa" },
])("$what stop nobody for long", ({ values, text }) => {
  const before = process.cpuUsage();
  const redactor = createRedactor(values);
  for (let piece = 0; piece < 20; piece += 1) redactor.push(text.repeat(10_000));
  redactor.end();
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(5_000);
});
