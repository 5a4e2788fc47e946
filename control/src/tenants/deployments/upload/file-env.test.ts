import { limits } from "@svc/proto";
import { expect, test } from "vitest";
import { readFileEnv } from "./file-env.ts";

const file = (text: string | Uint8Array, path = ".env") => ({ path, bytes: Buffer.from(text) });

test("variables of several files, the last word in the last file", () => {
  const files = [file("A=1\nB='two words'\n"), file("B=2\nC=\n", "apps/web/.env.production")];
  expect(readFileEnv(files)).toEqual({ vars: { A: "1", B: "2", C: "" } });
  expect(readFileEnv([])).toEqual({ vars: {} });
});

test.each([
  { when: "a line is no assignment", text: "A=1\nhunter2\n", says: ".env has no NAME=value in line 2" },
  { when: "a quote is open", text: "A=1\nB='hunter2\n", says: ".env has no NAME=value in line 2" },
  { when: "a name is not one", text: "hunter2-x=1\n", says: ".env, line 1: the name" },
  { when: "a name is the platform's", text: "A=1\n\nSVC_TOKEN=hunter2\n", says: ".env, line 3: the name" },
  { when: "a name is too long", text: `${"A".repeat(limits.envKeyLengthMax + 1)}=hunter2\n`, says: "line 1: the name" },
  { when: "a value has a NUL", text: "A=hunter2\u0000\n", says: ".env, line 1: A value has no NUL" },
  {
    when: "a value is too long",
    text: `A=hunter2${"x".repeat(limits.envValueBytesMax)}\n`,
    says: ".env, line 1: A value has at most",
  },
  { when: "it is not text", text: Buffer.of(0x41, 0x3d, 0xff), says: ".env is not text in UTF-8" },
])("when $when, it is refused without repeating what is there", ({ text, says }) => {
  const found = readFileEnv([file(text)]);
  const problem = "problem" in found ? found.problem : "";
  expect(problem).toContain(says);
  expect(problem).not.toContain("hunter2");
});

test("values of the longest kind are kept, and so is what fits in all", () => {
  const longest = "x".repeat(limits.envValueBytesMax);
  expect(readFileEnv([file(`A=${longest}\n`)])).toEqual({ vars: { A: longest } });
  const full = Array.from({ length: limits.envTotalBytesMax / limits.envValueBytesMax }, (_, at) =>
    file(`${String.fromCharCode(65 + at)}_=${"x".repeat(limits.envValueBytesMax - 2)}\n`),
  );
  expect(readFileEnv(full)).toHaveProperty("vars.A_");
  expect(readFileEnv([...full, file("Z=\n")])).toHaveProperty("problem");
});
