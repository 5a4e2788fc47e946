import { setTimeout as delay } from "node:timers/promises";
import { run } from "@svc/runtime/command";
import { runProgramSync } from "@svc/runtime/programs";
import { waitFor } from "../../../support/wait-for.ts";
import { agentsOf, type Bench } from "../bench.ts";
import { atMost } from "../measure.ts";
import { monotonicMs } from "../monotonic.ts";

/** Longer than a lease and everything that is added to it. */
const goneMs = 40_000;
const backMs = 180_000;
/** Not a group that anybody is in. */
export const fewGid = 60_999;

/** Row 5: from the moment agents fall silent to the moment each node counts as unreachable. */
export async function measureDetection(bench: Bench): Promise<void> {
  const { fleet, few, fewIds, nodeIds, report, log } = bench;
  const silence = async (
    what: string,
    ids: readonly string[],
    { silence: begin, end }: { silence: () => void | Promise<void>; end: () => void | Promise<void> },
  ) => {
    const seconds = await detect(bench, ids, begin, end);
    log(`${what}: ${Math.min(...seconds).toFixed(2)}..${Math.max(...seconds).toFixed(2)} s`);
    report({
      ...{ row: 5, metric: `${what}: silence to unreachable`, unit: "s", per: "event", samples: seconds },
      aim: atMost(16.5, "s", "max"),
      note: null,
    });
  };
  await silence(`${fewIds.length} of ${agentsOf(bench)} stand still`, fewIds, {
    silence: () => few.freeze(),
    end: () => few.thaw(),
  });
  const drop = dropping(bench);
  if (drop === null) log("packets of a few agents cannot be dropped here: that takes root and iptables");
  else await silence(`packets of ${fewIds.length} of ${agentsOf(bench)} are dropped`, fewIds, drop);
  await silence(`all of ${agentsOf(bench)} stand still`, nodeIds, {
    silence: () => {
      for (const part of fleet.parts) part.freeze();
    },
    end: () => {
      for (const part of fleet.parts) part.thaw();
    },
  });
}

async function detect(
  bench: Bench,
  ids: readonly string[],
  begin: () => void | Promise<void>,
  end: () => void | Promise<void>,
): Promise<number[]> {
  const { sessions, fleet, nodeIds } = bench;
  // Renewals are not in step with one another, and not with this.
  await delay(Math.random() * 5_000);
  await begin();
  const silentAt = monotonicMs();
  try {
    await sessions.until(
      "the silent nodes to be unreachable",
      goneMs,
      () => sessions.goneAt(ids).length === ids.length,
    );
    return sessions.goneAt(ids).map((at) => (at - silentAt) / 1000);
  } finally {
    await end();
    await waitFor("all sessions", backMs, async () => (await fleet.state()).open === nodeIds.length);
    await sessions.until("all agents to be back", backMs, () => sessions.reconciled() === nodeIds.length);
  }
}

/** Drops what the few agents send, without a word to anybody; null where that cannot be done. */
function dropping({ stand }: Bench): { silence: () => Promise<void>; end: () => Promise<void> } | null {
  if (process.getuid?.() !== 0) return null;
  const rule = [
    ...["OUTPUT", "-o", "lo", "-p", "tcp", "--dport", String(stand.platform.ports.link)],
    ...["-m", "owner", "--gid-owner", String(fewGid), "-j", "DROP"],
  ];
  // Also when this process is ended in between: the rule would outlive it.
  const undo = () => void runProgramSync(["iptables", "-w", "10", "-D", ...rule]);
  return {
    async silence() {
      await run(["iptables", "-w", "10", "-I", ...rule]);
      process.once("exit", undo);
    },
    async end() {
      await run(["iptables", "-w", "10", "-D", ...rule]);
      process.off("exit", undo);
    },
  };
}
