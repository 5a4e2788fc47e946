import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Clocks of programs that are started with `settings`; each is known by the address of its API. */
export interface WallClocks extends AsyncDisposable {
  settings: Record<string, string>;
  /** Puts the clock of the program at `apiUrl` so far ahead of the machine's, at once and for as long as it is started again. */
  set(apiUrl: string, aheadMs: number): Promise<void>;
}

const preload = pathToFileURL(join(import.meta.dirname, "wall-clock-preload.ts")).href;

/** Nobody's clock is off at first. The machine's own clock is not touched. */
export async function wallClocks(): Promise<WallClocks> {
  const dir = await mkdtemp(join(tmpdir(), "svc-clocks-"));
  return {
    settings: { NODE_OPTIONS: `--import ${preload}`, FAULT_CLOCKS: dir },
    set: (apiUrl, aheadMs) => writeFile(join(dir, new URL(apiUrl).host), String(aheadMs)),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}
