import { expect, test } from "vitest";
import { createSafeLines } from "./lines.ts";

const esc = String.fromCharCode(27);
const linesOf = (text: string, size: number, secrets: string[]): string[] => {
  const lines = createSafeLines(secrets);
  const bytes = Buffer.from(text);
  const out: string[] = [];
  for (let at = 0; at < bytes.length; at += size) out.push(...lines.push(bytes.subarray(at, at + size)));
  return [...out, ...lines.end()];
};

test.each([
  { when: "lines are plain", text: "a\nb\n", lines: ["a", "b"] },
  { when: "the last has no end", text: "one\ntw", lines: ["one", "tw"] },
  { when: "lines end as on Windows", text: "one\r\n\r\ntwo\r\n", lines: ["one", "", "two"] },
  { when: "a line is drawn again", text: "10 %\r50 %\r100 %\ndone\n", lines: ["100 %", "done"] },
  { when: "a drawn line ends with a return", text: "10 %\r100 %\r", lines: ["100 %"] },
  { when: "it is coloured", text: `${esc}[31mred${esc}[0m\n`, lines: ["red"] },
  { when: "it moves the cursor and rings", text: `${esc}[2J${esc}]0;title\u0007a\u0007b\u0000\n`, lines: ["a b"] },
  { when: "it is not ASCII", text: "größer – 漢字\n", lines: ["größer – 漢字"] },
  { when: "a secret spans lines", text: "key: one\ntwo three\n", lines: ["key: [redacted] three"] },
])("when $when", ({ text, lines }) => {
  for (const size of [1, 2, 3, 7, 1000]) expect(linesOf(text, size, ["one\ntwo"])).toEqual(lines);
});

test("a line without end is cut, and nothing of it is lost", () => {
  const text = "x".repeat(10_000);
  for (const size of [1, 999, 20_000]) {
    const lines = linesOf(text, size, []);
    expect(lines.join("")).toBe(text);
    expect(Math.max(...lines.map((line) => line.length))).toBe(4_000);
  }
});

test("a progress bar of a million states is one line", () => {
  const text = `${Array.from({ length: 1_000_000 }, (_, index) => `${index}`).join("\r")}\n`;
  expect(linesOf(text, 64 * 1024, ["s3cret"])).toEqual(["999999"]);
});
