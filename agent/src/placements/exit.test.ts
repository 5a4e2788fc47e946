import { expect, test } from "vitest";
import type { OomScope } from "../engine/oom-scope.ts";
import { explainEnd } from "./exit.ts";

const oomScope = "unknown";
const ended = (exitCode: number, oomKilled = false, scope: OomScope = oomScope) =>
  explainEnd({ exitCode, oomKilled, oomScope: scope }, 256, "before-answering");

test.each([
  { when: "it failed", end: ended(3), code: "START_FAILED", says: "exited with code 3 before it answered." },
  { when: "it was done", end: ended(0), code: "START_FAILED", says: "has to go on running" },
  { when: "it used too much", end: ended(137, true, "limit"), code: "OUT_OF_MEMORY", says: "more than its 256 MB" },
  {
    when: "the machine ran out",
    end: ended(137, true, "machine"),
    code: "OUT_OF_MEMORY",
    says: "within its own 256 MB",
  },
  { when: "memory ran out", end: ended(137, true), code: "OUT_OF_MEMORY", says: "want of memory before it answered." },
  { when: "only a child of it did", end: ended(0, true), code: "START_FAILED", says: "exited with code 0" },
  { when: "it was killed", end: ended(137), code: "START_FAILED", says: "SIGKILL (exit code 137)" },
  { when: "it fell over", end: ended(139), code: "START_FAILED", says: "SIGSEGV" },
  { when: "its command is not there", end: ended(127), code: "START_FAILED", says: "was not found" },
  { when: "its command may not run", end: ended(126), code: "START_FAILED", says: "chmod +x" },
  { when: "its code is no signal", end: ended(255), code: "START_FAILED", says: "exited with code 255" },
])("when $when", ({ end, code, says }) => {
  expect(end.code).toBe(code);
  expect(end.message).toContain(says);
});

test("an app that answered before is told of what is done about its end", () => {
  const end = { exitCode: 7, oomKilled: false, oomScope } as const;
  expect(explainEnd(end, 256, "restarting")).toEqual({
    code: "CRASH_LOOP",
    message: "The app exited with code 7 and is started again.",
  });
  expect(explainEnd(end, 256, "given-up").message).toContain("is not started any more");
  expect(explainEnd({ exitCode: 137, oomKilled: true, oomScope }, 256, "restarting").code).toBe("OUT_OF_MEMORY");
  const overflow = explainEnd({ exitCode: 137, oomKilled: false, oomScope, overflowMb: 512 }, 256, "restarting");
  expect(overflow.code).toBe("CRASH_LOOP");
  expect(overflow.message).toMatch(/^The app was ended because it wrote more than its 512 MB of disk and is started/);
});
