import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { ownProgram } from "@svc/runtime/programs";
import type { Random } from "@svc/runtime/random";
import type { DnsWriterConfig } from "../../settings/settings.ts";
import { updateZone } from "../../stores/dns/update/update.ts";
import type { DnsWriter } from "./worker.ts";

const hookMs = 60_000;
/** Nothing of control's own environment, which holds secrets that are not the program's. */
const hookEnvironment = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/** Writes records as the settings say. What it throws is for operators. */
export function createDnsWriter(parts: { clock: Clock; random: Random }, config: DnsWriterConfig): DnsWriter {
  if (config.by === "hook") return hookWriter(config.program);
  const { server: address, zone, key } = config;
  const change = (is: "added" | "removed") => (name: string, text: string, signal: AbortSignal) =>
    updateZone(parts, { address, key }, { zone, name, text, is }, signal);
  return { put: change("added"), remove: change("removed") };
}

/** A program that is given `put` or `remove`, the name, and the text of the record; it has to exit with 0, and may be asked again. */
function hookWriter(program: string): DnsWriter {
  const call = (what: "put" | "remove") => async (name: string, text: string, signal: AbortSignal) => {
    await run([ownProgram(program), what, name, text], { env: hookEnvironment, timeoutMs: hookMs, signal });
  };
  return { put: call("put"), remove: call("remove") };
}
