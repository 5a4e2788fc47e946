import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openLogFile } from "./log-file.ts";

test("a log keeps its newest lines and does not grow without end", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-log-"));
  const path = join(dir, "program.log");
  const log = openLogFile(path);
  const filler = `${"x".repeat(1023)}\n`.repeat(1024);
  for (let written = 0; written < 20; written += 1) log.write(filler);
  log.write("last\n");
  expect(log.tail(1)).toBe("last");
  const sizeMb = (statSync(path).size + statSync(`${path}.1`).size) / 1024 ** 2;
  expect(sizeMb).toBeLessThan(17);
  log.close();
  rmSync(dir, { recursive: true });
});
