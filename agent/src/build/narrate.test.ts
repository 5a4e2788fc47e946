import { expect, test } from "vitest";
import { narrate } from "./narrate.ts";

function narrated(text: string): string {
  const written: (string | Buffer)[] = [];
  const output = { write: (line: string | Buffer) => written.push(line) };
  narrate({ output, spec: { redact: ["hunter2hunter2", "first line\nsecond line"] } }, text);
  return written.join("");
}

test.each([
  { when: "it is plain", text: "Fetching the source", line: "› Fetching the source" },
  { when: "it has a line feed", text: "a.html\n› Stored sha256:0", line: "› a.html › Stored sha256:0" },
  { when: "it clears the screen", text: "a\u001b[2J\u0007.html\r", line: "› a .html" },
  { when: "it has a secret", text: "node a.js --key hunter2hunter2", line: "› node a.js --key [redacted]" },
  { when: "a secret is cut by a terminal code", text: "hunter2\u001b[0mhunter2", line: "› [redacted]" },
  { when: "it has a secret of two lines", text: "a first line\nsecond line b", line: "› a [redacted] b" },
])("what the platform says is one clean line when $when", ({ text, line }) => {
  expect(narrated(text)).toBe(`${line}\n`);
});

test("what the platform says is no longer than other lines", () => {
  expect(narrated("x".repeat(10_000))).toBe(`› ${"x".repeat(4_000)}\n`);
});
